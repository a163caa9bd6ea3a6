"""The journal's rows: encode, verify by their hash chain, publish their values again.

A row holds what one commit added. Everything in it was released, so emitting it again costs no
privacy; it contains no raw values and no noise. Rows are chained by a keyed hash (`_hash_chain`):
a row that was changed, dropped or moved is noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

import numpy as np

from tidegate._hash_chain import START, head_of, link
from tidegate.durable.folder_lock import StateError
from tidegate.errors import SnapshotError
from tidegate.estimate.published_values import fill_cells, fill_equal_cells
from tidegate.record.rows_and_levels import Levels, Rows
from tidegate.record.segments.journal_entry import JournalEntry, Trace
from tidegate.record.times.time_index import TimeKnots
from tidegate.run.non_negative import Remainder
from tidegate.run.pipeline import Pipeline
from tidegate.run.run_base import Phase
from tidegate.sealing import seal, unseal
from tidegate.stages import NO_SUMS
from tidegate.state_as_bytes import understood


def encoded(entry: JournalEntry, head: bytes, key: bytes) -> tuple[bytes, bytes]:
    """An entry as the bytes of a row, and the new head of the chain."""
    content = {**vars(entry), **vars(entry.trace)}
    del content["trace"], content["times"]
    if entry.times.size:
        content["time_places"], content["time_ticks"] = TimeKnots.through(entry.times)
    body = seal({"content": "journal"}, content, None)
    return body, link(head, body, key)


def verified(bodies: Iterable[bytes], key: bytes, expected: bytes, head: bytes = START) -> None:
    """Refuse rows, from `head` on, whose chain does not end in the head that is expected."""
    if head_of(bodies, key, head) != expected:
        raise StateError(f"the journal {_TAMPERED}")


def entries(bodies: Iterable[bytes]) -> Iterator[JournalEntry]:
    """The entries in the rows of a verified journal."""
    for body in bodies:
        try:
            _, content = unseal(body, None)
            with understood():
                known = {item.name for item in fields(Trace)}
                trace = Trace(**{name: content.pop(name) for name in known & content.keys()})
                times = NO_SUMS
                if "time_places" in content:
                    knots = TimeKnots(content.pop("time_places"), content.pop("time_ticks"))
                    times = knots.between(0, content["end"] - content["start"])
                entry = JournalEntry(**content, trace=trace, times=times)
        except SnapshotError:
            raise StateError(f"the journal {_TAMPERED}") from None
        yield entry


def merged(released: list[JournalEntry]) -> list[JournalEntry]:
    """Join neighbouring entries of one phase."""
    result: list[JournalEntry] = []
    for entry in released:
        last = result[-1] if result else None
        # An entry without values ends a warm-up whose rows were out: it is not joined.
        same = last and (last.phase_start, last.measured) == (entry.phase_start, entry.measured)
        if last and same and last.end > last.start and entry.end > entry.start:
            last.end, last.trace = entry.end, last.trace.joined(entry.trace)
            last.times = np.concatenate((last.times, entry.times))
        else:
            result.append(entry)
    return result


def published(
    pipeline: Pipeline, journal: Iterable[JournalEntry], phases: Iterable[Phase]
) -> Iterator[Rows]:
    """The published rows of each entry; `phases` are those that the journal knows of."""
    ends = {known.start: known.ends(pipeline.lattice.step) for known in phases}
    block, step = pipeline.perturber.block, pipeline.lattice.step
    remainder = Remainder() if pipeline.non_negative else None
    phase: int | None = None
    prediction, filled = 0.0, 0  # of the open cell
    track = Levels(pipeline.method, None, 0.0)
    for row in journal:
        if row.phase_start != phase:
            phase, prediction, filled = row.phase_start, row.first, 0
            known = ends.get(phase)
            track = Levels(
                pipeline.method,
                known and known.width,
                prediction,
                below=known.below if known else 0,
            )
        out, levels = np.zeros(row.end - row.start), np.zeros(row.end - row.start)
        cells = row.trace
        if row.measured:
            track.push(cells, levels)
        else:
            levels[:] = row.first
        pipeline.lattice.bounded(levels)
        if not out.size:
            prediction, filled = cells.predictions.item(-1), 0
        elif not row.measured:
            out[:] = row.first
        elif cells.widths.size:
            prediction, filled = fill_cells(
                out, prediction, filled, cells.widths, cells.totals, cells.predictions
            )
        else:
            prediction, filled = fill_equal_cells(
                out, prediction, filled, block, cells.sums, cells.predictions
            )
        out *= step
        if remainder is not None:
            remainder.settle(out)
        yield Rows(row.start, out, levels, row.times if row.times.size else None)


_TAMPERED = (
    "is damaged or was tampered with: restore it, or begin again with new_epoch=True (--new-epoch)"
)
