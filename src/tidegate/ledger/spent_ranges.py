"""`spent_ranges`: rows of a source, divided where charges begin or end, with their costs."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import zip_longest
from typing import NamedTuple

from tidegate.ledger.composition import composed_by_part
from tidegate.ledger.entries import Charge


class SpentRange(NamedTuple):
    """Rows [start, end) with the same charges; `end` None: no end."""

    start: int
    end: int | None
    spent: Fraction


def spent_ranges(charges: Sequence[Charge]) -> list[SpentRange]:
    """The charged rows, divided wherever a charge begins or ends, with the cost of a row in each.

    One sweep over the cuts, however many charges lie on each other. A value belongs to one part of
    the source: what counts is the part that has spent most, and what was charged to all parts. It
    lies on top of a heap, once sums that have changed since are taken off.
    """
    denominator = math.lcm(*{one.epsilon.denominator for one in charges})
    changes: dict[int, list[tuple[int, str, int]]] = {}
    for one in charges:
        if one.start == one.end:
            continue  # closed before it took a value
        amount = one.epsilon.numerator * (denominator // one.epsilon.denominator)
        changes.setdefault(one.start, []).append((1, one.part, amount))
        if one.end is not None:
            changes.setdefault(one.end, []).append((-1, one.part, -amount))
    cuts, found = sorted(changes), []
    spent: dict[str, int] = {"": 0}
    heap: list[tuple[int, str]] = []
    active = 0
    for cut, following in zip_longest(cuts, cuts[1:]):
        for number, part, amount in changes[cut]:
            active += number
            spent[part] = spent.get(part, 0) + amount
            if part:
                heapq.heappush(heap, (-spent[part], part))
        while heap and -heap[0][0] != spent[heap[0][1]]:
            heapq.heappop(heap)
        if active:
            most = spent[""] - (heap[0][0] if heap else 0)
            found.append(SpentRange(cut, following, Fraction(most, denominator)))
    return found


def dearest_charges(found: SpentRange, charges: Sequence[Charge]) -> list[Charge]:
    """The charges that apply to one value of the range: of the part that has spent most."""
    here = [
        one
        for one in charges
        if one.start <= found.start and (one.end is None or one.end > found.start)
    ]
    return max(composed_by_part(here), key=lambda part: sum(one.epsilon for one in part))
