"""What a source was charged, range by range: what the live page draws of the ledger.

The rows of a source are cut wherever a charge begins or ends. Charges on the same rows add up; what
counts is the range that has spent most. Nothing in it is secret (see `tidegate.ledger`).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import zip_longest
from typing import Any, NamedTuple

from tidegate.durable import DurableRelease
from tidegate.errors import MissingError
from tidegate.ledger import Ledger
from tidegate.ledger.composition import by_part
from tidegate.ledger.entries import Charge
from tidegate.service.gate import Gate
from tidegate.service.open_streams import Run
from tidegate.service.stored_stream import EPOCH, StoredStream
from tidegate.service.stream_kinds import epoch_of

_MOST_RANGES = 60  # in an answer: the one that spent most, and the newest
_MOST_CHARGES = 40  # of one range that are named one by one
_MOST_STREAMS = 100  # whose charges are named


def charged(gate: Gate, source: str) -> dict[str, Any]:
    """The ranges of a source, and the charges on each, by stream."""

    def read(book: Ledger) -> tuple[list[Charge], Fraction | None, Fraction | None]:
        if source not in book.sources:
            raise MissingError("there is no such source, or nothing was charged to it yet")
        return book.charges(source), book.cap_of(source), book.left(source)

    charges, cap, left = gate.spent(read)
    found = charged_ranges(charges)
    streams = _streams(gate, source, {one.epoch for one in charges})
    dearest = max(found, key=lambda one: one.spent, default=None)
    kept = found[-_MOST_RANGES:]
    if dearest is not None and dearest.spent > max(one.spent for one in kept):
        kept = [dearest, *kept[1:]]
    return {
        "source": source,
        "cap": None if cap is None else str(cap),
        "left": None if left is None else str(left),
        "spent": str(Fraction(0) if dearest is None else dearest.spent),
        "ranges": [_shown(one, charges, streams) for one in kept],
        "left_out": len(found) - len(kept),
    }


class SpentRange(NamedTuple):
    """Rows [start, end) to which the same charges apply; `end` None: without end."""

    start: int
    end: int | None
    spent: Fraction


def charged_ranges(charges: Sequence[Charge]) -> list[SpentRange]:
    """The charged rows, cut wherever a charge begins or ends, and what a row of each has spent.

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


def _dearest(found: SpentRange, charges: Sequence[Charge]) -> list[Charge]:
    """The charges that meet at one value of the range: of the part that has spent most."""
    here = [
        one
        for one in charges
        if one.start <= found.start and (one.end is None or one.end > found.start)
    ]
    return max(by_part(here), key=lambda part: sum(one.epsilon for one in part))


def _shown(found: SpentRange, charges: Sequence[Charge], streams: dict[str, str]) -> dict[str, Any]:
    meeting = sorted(_dearest(found, charges), key=lambda one: one.sequence)
    named, rest = meeting[:_MOST_CHARGES], meeting[_MOST_CHARGES:]
    plain = [
        {
            "sequence": one.sequence,
            "stream": streams.get(one.epoch, ""),
            "stage": one.stage,
            "part": one.part,
            "epsilon": str(one.epsilon),
        }
        for one in named
    ]
    others = str(sum((one.epsilon for one in rest), Fraction(0)))
    facts = {"start": found.start, "end": found.end, "spent": str(found.spent)}
    return {**facts, "charges": plain, "others": others}


def _streams(gate: Gate, source: str, epochs: set[str]) -> dict[str, str]:
    """The names of the streams that these charges were for, by the id of their noise."""
    found: dict[str, str] = {}
    for name in [name for one in gate.streams.listed() for name in _epochs(one, source)]:
        if len(found) >= len(epochs) or len(found) >= _MOST_STREAMS:
            break
        found |= dict.fromkeys(epochs & {*gate.ask(name, _ids)}, name)
    return found


def _epochs(stream: StoredStream, source: str) -> list[str]:
    if stream.source != source:
        return []
    earlier = [f"{stream.plain_name}{EPOCH}{number}" for number in range(1, stream.epoch)]
    return [stream.plain_name, *earlier]


def _ids(run: Run) -> list[str]:
    phases = [one.epoch for one in run.phases] if isinstance(run, DurableRelease) else []
    return [epoch_of(run), *phases]
