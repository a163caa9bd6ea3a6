"""What the paper says, checked against what was measured: verdicts are computed, never typed.

A claim of a figure is declared by its `kind`:

    ratio    `of` / `over` in one cell lies in [low, high]; of_epsilon, over_epsilon, of_setting and
             over_setting compare across cells, `factor` multiplies the ratio
    across   the error of a method, or of each of several, at its first ε over its last, likewise
    value    a metric of `of` lies in [low, high]
    best     `of` is at most `within` times the best of `among`
    target   `of` is within a factor `within` of `values`, by ε
    table    the columns of the paper's table are met
    closer   of two streams, `dataset` is nearer to the paper's row of `row` than `than` is

Medians over runs count, unless `statistic` says otherwise. `pool`: one number a stream, the
geometric mean over ε, where single cells are too noisy. `somewhere`: one cell is enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from experiments.claim_lookup import Found, Lookup
from experiments.datasets import MEAN_TOLERANCE
from experiments.errors import ExperimentError
from experiments.figures import Figure
from experiments.registry import dataset

_COMMON = {
    *("says", "kind", "by", "metric", "datasets", "settings", "epsilons", "statistic"),
    *("pool", "somewhere"),
}
_KEYS: dict[str, set[str]] = {
    "ratio": {
        *("of", "over", "low", "high", "factor"),
        *("of_epsilon", "over_epsilon", "of_setting", "over_setting"),
    },
    "across": {"of", "low", "high"},
    "value": {"of", "low", "high"},
    "best": {"of", "among", "within"},
    "target": {"of", "values", "within"},
    "table": {"of"},
    "closer": {"of", "dataset", "than", "row"},
}
HOLDS, PART, FAILS, UNKNOWN = "holds", "holds in part", "does not hold", "not measured"


@dataclass(frozen=True)
class Check:
    """One number that a claim speaks of."""

    where: Found
    epsilon: float | None
    measured: float
    holds: bool


@dataclass(frozen=True)
class Verdict:
    """A claim, and all that was measured about it."""

    says: str
    by: str
    expected: str  # the band, in words
    checks: list[Check] = field(repr=False)
    somewhere: bool = False

    @property
    def verdict(self) -> str:
        if not self.checks:
            return UNKNOWN
        held = sum(check.holds for check in self.checks)
        enough = 1 if self.somewhere else len(self.checks)
        return HOLDS if held >= enough else PART if held else FAILS

    @property
    def count(self) -> str:
        return f"{sum(check.holds for check in self.checks)} of {len(self.checks)}"

    def by_stream(self) -> list[tuple[Found, str, str]]:
        """Stream and setting, what was measured, in how many of its cells the claim holds."""
        groups: dict[tuple[str, str], list[Check]] = {}
        for check in self.checks:
            groups.setdefault((check.where.label, check.where.setting), []).append(check)
        return [
            (group[0].where, _spread(group), f"{sum(one.holds for one in group)} of {len(group)}")
            for group in groups.values()
        ]


def verdicts(figure: Figure, lookup: Lookup) -> list[Verdict]:
    """All claims of a figure."""
    return [_verdict(claim, lookup) for claim in figure.claims]


def check_declared(figure: Figure) -> None:
    """Refuse a claim that could never be evaluated: an unknown kind, key or method."""
    names = {method.name for method in figure.methods}
    for number, claim in enumerate(figure.claims, start=1):
        place = f"claim {number}"
        kind = claim.get("kind")
        if kind not in _KEYS:
            raise ExperimentError(f"{place}: kind must be one of {', '.join(_KEYS)}, not {kind!r}")
        unknown = sorted(set(claim) - _COMMON - _KEYS[kind])
        if unknown or "says" not in claim:
            raise ExperimentError(f"{place}: unknown key {unknown[0]!r}" if unknown else f"{place}: says nothing")
        named = [name for key in ("of", "over", "among") for name in _listed(claim.get(key, []))]
        for name in named:
            if name not in names:
                raise ExperimentError(f"{place}: the figure has no method {name!r}")
        for name in claim.get("datasets", []):
            dataset(name)


def _verdict(claim: dict[str, Any], lookup: Lookup) -> Verdict:
    checks = list(_EVALUATE[claim["kind"]](claim, lookup))
    somewhere = claim.get("somewhere", False)
    return Verdict(claim["says"], claim.get("by", "paper"), _expected(claim), checks, somewhere)


def _ratio(claim: dict[str, Any], lookup: Lookup) -> Iterator[Check]:
    for found in lookup.found(claim, setting_key="over_setting"):
        ratios = dict(_ratios(claim, lookup, found, claim["of"], claim["over"]))
        yield from _judged(claim, found, ratios, lambda ratio: _inside(claim, ratio))


def _ratios(
    claim: dict[str, Any], lookup: Lookup, found: Found, of: str, over: str
) -> Iterator[tuple[float | None, float]]:
    """`of` over `over`, by ε; once only where the claim names both epsilons."""
    above = found.moved(claim["of_setting"]) if "of_setting" in claim else found
    epsilons: list[float | None] = [*lookup.epsilons(over, claim, found)]
    for epsilon in [None] if {"of_epsilon", "over_epsilon"} <= set(claim) else epsilons:
        top = lookup.value(of, claim, above, claim.get("of_epsilon", epsilon))
        bottom = lookup.value(over, claim, found, claim.get("over_epsilon", epsilon))
        if top is not None and bottom:
            yield epsilon, top / bottom * claim.get("factor", 1.0)


def _judged(
    claim: dict[str, Any],
    found: Found,
    ratios: dict[float | None, float],
    holds: Callable[[float], bool],
) -> Iterator[Check]:
    if ratios and claim.get("pool"):
        ratios = {None: _geometric_mean(ratios.values())}
    for epsilon, ratio in ratios.items():
        yield Check(found, epsilon, ratio, holds(ratio))


def _across(claim: dict[str, Any], lookup: Lookup) -> Iterator[Check]:
    for found in lookup.found(claim):
        for method in _listed(claim["of"]):
            epsilons = lookup.epsilons(method, claim, found)
            if len(epsilons) > 1:
                first = lookup.value(method, claim, found, epsilons[0])
                last = lookup.value(method, claim, found, epsilons[-1])
                if first is not None and last:
                    yield Check(found, None, first / last, _inside(claim, first / last))


def _value(claim: dict[str, Any], lookup: Lookup) -> Iterator[Check]:
    for found in lookup.found(claim):
        for epsilon in lookup.epsilons(claim["of"], claim, found):
            value = lookup.value(claim["of"], claim, found, epsilon)
            if value is not None:
                yield Check(found, epsilon, value, _inside(claim, value))


def _best(claim: dict[str, Any], lookup: Lookup) -> Iterator[Check]:
    """Measured is the ratio to the best of the others; pooled, the others are pooled first."""
    for found in lookup.found(claim):
        rivals = [
            dict(_ratios(claim, lookup, found, claim["of"], name)) for name in claim["among"]
        ]
        if claim.get("pool"):
            rivals = [{None: _geometric_mean(rival.values())} for rival in rivals if rival]
        worst: dict[float | None, float] = {}
        for rival in rivals:
            for epsilon, ratio in rival.items():
                worst[epsilon] = max(ratio, worst.get(epsilon, 0.0))
        yield from _judged(claim, found, worst, lambda ratio: ratio <= claim.get("within", 1.0))


def _target(claim: dict[str, Any], lookup: Lookup) -> Iterator[Check]:
    """Measured is the ratio to the target."""
    within = claim.get("within", 2.0)
    for found in lookup.found(claim):
        for text, wanted in claim["values"].items():
            value = lookup.value(claim["of"], claim, found, float(text))
            if value is not None:
                ratio = value / wanted
                yield Check(found, float(text), ratio, 1 / within <= ratio <= within)


def _table(claim: dict[str, Any], lookup: Lookup) -> Iterator[Check]:
    """Measured is how many of the six columns are as printed."""
    for found in lookup.found(claim):
        wanted = dataset(found.dataset).table
        if wanted is None:
            continue
        met = 0
        for column, value in vars(wanted).items():
            got = lookup.value(claim["of"], {**claim, "metric": column}, found, None)
            met += got is not None and abs(got - value) <= (MEAN_TOLERANCE if column == "mean" else 0)
        yield Check(found, None, float(met), met == len(vars(wanted)))


def _closer(claim: dict[str, Any], lookup: Lookup) -> Iterator[Check]:
    """Measured is the mean factor by which `dataset` is off the printed row."""
    row = dataset(claim["row"]).table
    distances = {}
    for found in lookup.found({**claim, "datasets": [claim["dataset"], claim["than"]]}):
        factors = []
        for column in ("p85", "p95", "p995", "p100", "mean"):
            got = lookup.value(claim["of"], {**claim, "metric": column}, found, None)
            if got and row is not None:
                factors.append(abs(math.log(got / getattr(row, column))))
        distances[found.dataset] = (found, math.exp(sum(factors) / len(factors)))
    if len(distances) == 2:
        (found, mine), (_, other) = distances[claim["dataset"]], distances[claim["than"]]
        yield Check(found, None, mine, mine < other)


_EVALUATE: dict[str, Callable[[dict[str, Any], Lookup], Iterator[Check]]] = {
    "ratio": _ratio,
    "across": _across,
    "value": _value,
    "best": _best,
    "target": _target,
    "table": _table,
    "closer": _closer,
}


def _listed(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


def _inside(claim: dict[str, Any], value: float) -> bool:
    return bool(claim.get("low", -math.inf) <= value <= claim.get("high", math.inf))


def _expected(claim: dict[str, Any]) -> str:
    kind, metric = claim["kind"], claim.get("metric", "mse")
    if kind == "best":
        return f"{claim['of']} ≤ {claim.get('within', 1.0):g} × the best of the others ({metric})"
    if kind == "target":
        return f"{claim['of']} within a factor of {claim.get('within', 2.0):g} of the authors' code"
    if kind == "table":
        return "n, four quantiles and the mean as printed"
    if kind == "closer":
        row = dataset(claim["row"]).title
        return f"{dataset(claim['dataset']).title} nearer to the row of {row} than {dataset(claim['than']).title}"
    band = _band(claim)
    if kind == "ratio":
        scaled = f" × {claim['factor']:g}" if "factor" in claim else ""
        top = claim["of"] + (f" at ε={claim['of_epsilon']:g}" if "of_epsilon" in claim else "")
        top += f" ({claim['of_setting']})" if "of_setting" in claim else ""
        bottom = claim["over"] + (
            f" at ε={claim['over_epsilon']:g}" if "over_epsilon" in claim else ""
        )
        bottom += f" ({claim['over_setting']})" if "over_setting" in claim else ""
        return f"{metric} of {top} over {bottom}{scaled} {band}"
    if kind == "across":
        return f"{metric} of {', '.join(_listed(claim['of']))} at the first ε over the last {band}"
    return f"{metric} of {claim['of']} {band}"


def _band(claim: dict[str, Any]) -> str:
    low, high = claim.get("low"), claim.get("high")
    if low is not None and high is not None:
        return f"in {low:g}–{high:g}"
    return f"≥ {low:g}" if low is not None else f"≤ {high:g}"


def _spread(checks: list[Check]) -> str:
    values = sorted(check.measured for check in checks)
    if len(values) == 1:
        return short(values[0])
    return f"{short(_geometric_mean(values))} ({short(values[0])}–{short(values[-1])})"


def _geometric_mean(values: Iterable[float]) -> float:
    return math.exp(fmean(math.log(value) for value in values))


def short(value: float) -> str:
    """Two or three digits for people."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.3g}" if abs(value) < 1e3 else f"{value:,.0f}"
    return f"{value:.1e}"
