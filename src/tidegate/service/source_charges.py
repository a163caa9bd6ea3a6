"""The charges of a source by range, for the live page's chart of the ledger.

The rows of a source are cut wherever a charge begins or ends. Charges on the same rows add up; what
counts is the range that has spent most. Nothing in it is secret (see `tidegate.ledger`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

from tidegate.durable import DurableRelease, StateError
from tidegate.errors import MissingError, SettingError
from tidegate.ledger import Ledger
from tidegate.ledger.entries import Charge
from tidegate.ledger.spent_ranges import SpentRange, dearest_charges, spent_ranges
from tidegate.service.gate import GateThread
from tidegate.service.open_streams import Run
from tidegate.service.stored_stream import EPOCH, StoredStream
from tidegate.service.stream_kinds import epoch_of_stream

_MOST_RANGES = 60  # in an answer: the one that spent most, and the newest
_MOST_CHARGES = 40  # of one range that are named one by one
_MOST_STREAMS = 100  # whose charges are named


def source_charges(gate: GateThread, source: str) -> dict[str, Any]:
    """The ranges of a source, and the charges on each, by stream."""

    def read(book: Ledger) -> tuple[list[Charge], Fraction | None, Fraction | None]:
        if source not in book.sources:
            raise MissingError("there is no such source, or nothing was charged to it yet")
        return book.charges(source), book.cap_of(source), book.left(source)

    charges, cap, left = gate.spent(read)
    found = spent_ranges(charges)
    streams = _charged_streams(gate, source, {one.epoch for one in charges})
    dearest = max(found, key=lambda one: one.spent, default=None)
    kept = found[-_MOST_RANGES:]
    if dearest is not None and dearest.spent > max(one.spent for one in kept):
        kept = [dearest, *kept[1:]]
    return {
        "source": source,
        "cap": None if cap is None else str(cap),
        "left": None if left is None else str(left),
        "spent": str(Fraction(0) if dearest is None else dearest.spent),
        "ranges": [_shown_charges(one, charges, streams) for one in kept],
        "left_out": len(found) - len(kept),
    }


def _shown_charges(
    found: SpentRange, charges: Sequence[Charge], streams: dict[str, str]
) -> dict[str, Any]:
    meeting = sorted(dearest_charges(found, charges), key=lambda one: one.sequence)
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


def _charged_streams(gate: GateThread, source: str, epochs: set[str]) -> dict[str, str]:
    """The names of the charged streams, by the id of their noise."""
    found: dict[str, str] = {}
    for name in [name for one in gate.streams.listed() for name in _charged_epochs(one, source)]:
        if len(found) >= len(epochs) or len(found) >= _MOST_STREAMS:
            break
        with suppress(StateError, SettingError):  # damaged: its charges are shown without a name
            found |= dict.fromkeys(epochs & {*gate.ask(name, _charged_ids)}, name)
    return found


def _charged_epochs(stream: StoredStream, source: str) -> list[str]:
    if stream.source != source:
        return []
    earlier = [f"{stream.plain_name}{EPOCH}{number}" for number in range(1, stream.epoch)]
    return [stream.plain_name, *earlier]


def _charged_ids(run: Run) -> list[str]:
    phases = [one.epoch for one in run.phases] if isinstance(run, DurableRelease) else []
    return [epoch_of_stream(run), *phases]
