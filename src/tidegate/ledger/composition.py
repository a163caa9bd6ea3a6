"""Composition: charges on the same positions add up, charges on disjoint ranges do not."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple, TypeVar

from tidegate.guarantee import (
    Guarantee,
    concentrated_epsilon,
    free,
    parallel,
    sequential,
    worth_in_rho,
)
from tidegate.ledger.entries import Charge


class ChargedRange(NamedTuple):
    """Positions [start, end) with the same charges; `end` None: no end."""

    start: int
    end: int | None
    total: Guarantee
    charges: list[Charge]


def composed_peak(amounts: Collection[tuple[int, int | None, Fraction]]) -> Fraction:
    """The maximum over positions of the sum of all (start, end, amount) that cover it.

    A sweep over the ends of ranges: the sum changes nowhere else. It counts in multiples of the
    common denominator, which is exact, and ten times faster than adding fractions.
    """
    denominator = math.lcm(*{amount.denominator for _, _, amount in amounts})
    changes: dict[int, int] = {}
    for start, end, amount in amounts:
        change = amount.numerator * (denominator // amount.denominator)
        changes[start] = changes.get(start, 0) + change
        if end is not None:
            changes[end] = changes.get(end, 0) - change
    running = (changes[position] for position in sorted(changes))
    return Fraction(max(accumulate(running), default=0), denominator)


Costing = TypeVar("Costing", "ComposedAmount", Charge)


def composed_by_part(charges: Collection[Costing]) -> list[list[Costing]]:
    """The charges that can apply to one value: those of one part, and those without a part.

    Parts of a source have no value in common. A value of part p is read by what was charged to p
    and by what was charged to all, so the source has spent the maximum over its parts.
    """
    own: dict[str, list[Costing]] = {}  # one pass: a source may have thousands of parts
    for charge in charges:
        own.setdefault(charge.part, []).append(charge)
    common: list[Costing] = own.pop("", [])
    return [common + own[part] for part in sorted(own)] or [common]


class ComposedAmount(NamedTuple):
    """ε on the positions [start, end) of a part of a source; of all parts if it is empty."""

    part: str
    start: int
    end: int | None
    epsilon: Fraction


def amounts_of(charges: Iterable[Charge]) -> list[ComposedAmount]:
    """The costs of these charges, with their positions."""
    return [ComposedAmount(one.part, one.start, one.end, one.epsilon) for one in charges]


def most_spent(amounts: Collection[ComposedAmount]) -> Fraction:
    """The ε at the most charged position of the most charged part."""
    return max(
        composed_peak([one[1:] for one in together]) for together in composed_by_part(amounts)
    )


def spent(charges: Iterable[Charge]) -> Fraction:
    """The ε of a source at its most charged position."""
    return most_spent(amounts_of(charges))


def total_by_composition(charges: Collection[Charge]) -> Guarantee:
    """The total that a source has spent.

    ε and δ are maximised separately, as in `parallel`: an upper bound.
    """
    if not charges:
        return free()
    apart = composed_by_part(charges)
    if len(apart) > 1:
        return parallel(*(total_by_composition(together) for together in apart))
    # By identity: hashing a hundred thousand fractions would take longer than adding them.
    kinds = {id(charge.guarantee): charge.guarantee for charge in charges}
    deltas = [(charge.start, charge.end, charge.delta) for charge in charges if charge.delta]
    rhos = worth_in_rho([charge.guarantee for charge in charges])
    together = parallel(*kinds.values())  # refuses to mix units; remembers floats
    if rhos is not None:  # concentrated: ρ adds up, and is worth less than the sum of ε
        rho = composed_peak(
            [(charge.start, charge.end, one) for charge, one in zip(charges, rhos, strict=True)]
        )
        return replace(together, epsilon=concentrated_epsilon(rho, together.delta), rho=rho)
    return replace(
        together,
        epsilon=spent(charges),
        delta=min(Fraction(1), composed_peak(deltas)),
    )


def composed_ranges(charges: Iterable[Charge]) -> list[ChargedRange]:
    """The charged positions, divided wherever a charge begins or ends."""
    begins: dict[int, list[Charge]] = {}
    ends: dict[int, list[Charge]] = {}
    for charge in charges:
        if charge.start == charge.end:
            continue  # closed before it took a value
        begins.setdefault(charge.start, []).append(charge)
        if charge.end is not None:
            ends.setdefault(charge.end, []).append(charge)
    cuts = sorted({*begins, *ends})
    found: list[ChargedRange] = []
    active: dict[int, Charge] = {}
    for index, cut in enumerate(cuts):
        for charge in ends.get(cut, ()):
            del active[charge.sequence]
        for charge in begins.get(cut, ()):
            active[charge.sequence] = charge
        if active:
            now = list(active.values())
            end = cuts[index + 1] if index + 1 < len(cuts) else None
            parts = [sequential(*(item.guarantee for item in one)) for one in composed_by_part(now)]
            found.append(ChargedRange(cut, end, parallel(*parts), now))
    return found


def total_of_sources(together: Iterable[Guarantee], disjoint: Iterable[Guarantee]) -> Guarantee:
    """The total over all sources: those that may share values add up, disjoint ones do not."""
    shared = list(together)
    apart = list(disjoint)
    if shared:
        apart.append(sequential(*shared))
    return parallel(*apart) if apart else free()
