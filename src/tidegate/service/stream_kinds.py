"""What differs between kinds of streams (readings, events, keys): push, position, clock, names."""

from __future__ import annotations

import numpy as np

from tidegate.durable import DurableRelease
from tidegate.errors import InputError, SettingError
from tidegate.keyed.committed_keyed_release import CommittedKeyed
from tidegate.keyed.keyed_event_release import KeyedEventRelease
from tidegate.lattice import FloatArray
from tidegate.run.pipeline import Pipeline
from tidegate.service.open_streams import Run
from tidegate.service.pending_requests import PendingPush
from tidegate.service.released_rows import RowBlock
from tidegate.timestamps import Times

MOST_TICKS = 1 << 20  # that one request may close


def pipeline_of_stream(run: Run) -> Pipeline:
    """The pipeline of a stream, or of each of its keys."""
    return run.specification.pipeline if isinstance(run, CommittedKeyed) else run.pipeline


def stream_places_are_public(run: Run) -> bool:
    """Whether the number of taken rows is public: not for events, nor if rows may be dropped.

    Where keys are declared, rows of other keys are dropped, and nobody is told that they came.
    """
    if isinstance(run, CommittedKeyed):
        return run.specification.counts_rows
    return run.pipeline.ticks is None


def of_one_kind_together(requests: list[PendingPush]) -> list[list[PendingPush]]:
    """Group neighbours that can be one push: same clock, and no ticks to close in between."""
    found: list[list[PendingPush]] = []
    for one in requests:
        if found and _streams_alike(found[-1][-1], one):
            found[-1].append(one)
        else:
            found.append([one])
    return found


def _streams_alike(one: PendingPush, other: PendingPush) -> bool:
    clocks = [None if each.times is None else each.times.clock for each in (one, other)]
    keyed = (one.keys is None) == (other.keys is None)
    return clocks[0] == clocks[1] and keyed and one.until is None and other.until is None


def pushed_by_kind(run: Run, batch: list[PendingPush]) -> list[RowBlock]:
    """Release the rows of several requests of one kind.

    Raises:
        TidegateError: nothing was taken, unless `run.cut_short`.
    """
    values = np.concatenate([one.values for one in batch])
    times = _joined_by_kind([one.times for one in batch if one.times is not None])
    keys = None
    if batch[0].keys is not None:
        keys = [key for one in batch for key in one.keys or ()]
    until = batch[0].until
    if until is not None:
        check_clock_of_stream(run, until)
    if isinstance(run, CommittedKeyed):
        return _pushed_to_keyed_stream(run, values, times, keys, until)
    if keys is not None:
        raise InputError("this stream has no keys: send none")
    if until is None:
        return [RowBlock.of(run.push_rows(values, None, times), run.position)]
    blocks = []
    if values.size:
        blocks.append(RowBlock.of(run.push_rows(values, None, times), run.position))
    return [*blocks, RowBlock.of(run.advance(until), run.position)]


def _pushed_to_keyed_stream(
    run: CommittedKeyed,
    values: FloatArray,
    times: Times | None,
    keys: list[str | None] | None,
    until: str | None,
) -> list[RowBlock]:
    release, blocks = run.release, []
    if values.size or until is None:
        if keys is None:
            raise InputError("this stream has keys: every value needs one")
        blocks.append(RowBlock.of(run.push_rows(keys, values, times), release.position))
    if until is not None and isinstance(release, KeyedEventRelease):
        ends = release.ends_until(until)
        blocks += [RowBlock.of(run.close_ticks(end), release.position) for end in ends]
    return blocks


def check_clock_of_stream(run: Run, until: str) -> None:
    """Refuse a clock that no tick of the stream can follow."""
    ticks = pipeline_of_stream(run).ticks
    if ticks is None:
        raise SettingError("until", "is for event streams")
    counts = [run.position] if isinstance(run, DurableRelease) else run.release.counts().tolist()
    due = ticks.complete(until)
    if sum(max(0, due - count) for count in counts) > MOST_TICKS:
        raise SettingError("until", f"would close more than {MOST_TICKS:,} ticks at once")


def _joined_by_kind(times: list[Times]) -> Times | None:
    if len(times) < 2:  # nothing to join
        return times[0] if times else None
    return Times(np.concatenate([one.ticks for one in times]), times[0].clock)


def position_of_stream(run: Run) -> int:
    """The number of released rows."""
    return run.position if isinstance(run, DurableRelease) else run.release.position


def epoch_of_stream(run: Run) -> str:
    """The public id of the noise."""
    return run.epoch if isinstance(run, DurableRelease) else run.release.epoch


def key_names_of_stream(run: Run) -> list[str] | None:
    """The keys of a stream, by code. None: it has no keys."""
    return run.release.keys if isinstance(run, CommittedKeyed) else None


def clock_of_stream(pipeline: Pipeline) -> str | None:
    """The zone for times without one, if the stream has it."""
    return None if pipeline.ticks is None else pipeline.ticks.clock.zone
