"""How each kind of claim is evaluated: from declared data and results to single checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from experiments.claims.lookup import Found, Lookup
from experiments.claims.words import listed
from experiments.datasets import MEAN_TOLERANCE
from experiments.registry import dataset


@dataclass(frozen=True)
class Check:
    """One number that a claim speaks of."""

    where: Found
    epsilon: float | None
    measured: float
    holds: bool


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
        ratios = {None: geometric_mean(ratios.values())}
    for epsilon, ratio in ratios.items():
        yield Check(found, epsilon, ratio, holds(ratio))


def _across(claim: dict[str, Any], lookup: Lookup) -> Iterator[Check]:
    for found in lookup.found(claim):
        for method in listed(claim["of"]):
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
        rivals = [dict(_ratios(claim, lookup, found, claim["of"], name)) for name in claim["among"]]
        if claim.get("pool"):
            rivals = [{None: geometric_mean(rival.values())} for rival in rivals if rival]
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
            met += got is not None and abs(got - value) <= (
                MEAN_TOLERANCE if column == "mean" else 0
            )
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


EVALUATE: dict[str, Callable[[dict[str, Any], Lookup], Iterator[Check]]] = {
    "ratio": _ratio,
    "across": _across,
    "value": _value,
    "best": _best,
    "target": _target,
    "table": _table,
    "closer": _closer,
}


def _inside(claim: dict[str, Any], value: float) -> bool:
    return bool(claim.get("low", -math.inf) <= value <= claim.get("high", math.inf))


def geometric_mean(values: Iterable[float]) -> float:
    """Of ratios and errors; 0 if one of them is."""
    listed_values = list(values)
    if min(listed_values) <= 0:
        return 0.0
    return math.exp(fmean(map(math.log, listed_values)))
