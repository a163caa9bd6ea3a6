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

from dataclasses import dataclass, field
from typing import Any

from experiments.claims.kinds import EVALUATE, Check, geometric_mean
from experiments.claims.lookup import Found, Lookup
from experiments.claims.words import expected, listed, short
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

    @property
    def spread(self) -> str:
        """What was measured, over all cells."""
        return _spread(self.checks)

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
            raise ExperimentError(
                f"{place}: unknown key {unknown[0]!r}" if unknown else f"{place}: says nothing"
            )
        named = [name for key in ("of", "over", "among") for name in listed(claim.get(key, []))]
        for name in named:
            if name not in names:
                raise ExperimentError(f"{place}: the figure has no method {name!r}")
        for name in claim.get("datasets", []):
            dataset(name)


def _verdict(claim: dict[str, Any], lookup: Lookup) -> Verdict:
    checks = list(EVALUATE[claim["kind"]](claim, lookup))
    somewhere = claim.get("somewhere", False)
    return Verdict(claim["says"], claim.get("by", "paper"), expected(claim), checks, somewhere)


def _spread(checks: list[Check]) -> str:
    values = sorted(check.measured for check in checks)
    if len(values) == 1:
        return short(values[0])
    return f"{short(geometric_mean(values))} ({short(values[0])}–{short(values[-1])})"
