"""Compare an output with its state: detect rollbacks, find missing rows.

The output lies outside the state, and everything in it (rows, thresholds, metadata) was committed
before it left. A state that does not know some of it was rolled back; continuing it would use its
noise a second time. An output that has less than the state is completed from the journal, which
costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tidegate.durable.committed_reading import CommittedReading
from tidegate.durable.folder_lock import StateError
from tidegate.errors import InputError, SettingError
from tidegate.io import SinkError, SourceError, read_metadata, read_rows_by, recover, recoverable
from tidegate.io.output_recovery import last_position_to_recover
from tidegate.record.rows_and_levels import Rows


def output_rows_written(
    path: str, format_name: str | None, run: CommittedReading, warn: Callable[[str], None]
) -> int:
    """The number of rows after which the file can be continued; 0: rewrite it from the journal.

    Raises:
        StateError: if the file holds what this state does not know, or is not of this release.
    """
    place, facts = Path(path), _output_facts(path, format_name)
    theirs = _output_epoch(facts)
    if theirs == run.epoch:
        _check_output_metadata(path, facts, run)
    if not place.is_file() or not place.stat().st_size:
        return 0
    if not recoverable(path, format_name):
        if theirs != run.epoch:
            _check_output_is_ours(path, theirs, _compared_output(path, format_name, run), run)
        return 0
    try:
        found = recover(path, format_name)
    except SinkError as error:
        last = last_position_to_recover(path, format_name)
        if theirs != run.epoch or last is None:
            raise
        # Ours, by its metadata: after a power cut, blocks that never came are zeros anywhere.
        check_output_not_ahead(path, last + 1, run)
        warn(f"{error}: it is rewritten from the journal")
        return 0
    rows = found.first + found.rows if found.rows else 0
    if not rows:
        return 0
    compared = _compared_output(path, format_name, run)
    if theirs != run.epoch or rows > run.position:
        _check_output_is_ours(path, theirs, ComparedOutput(compared.same, rows, True), run)
    if compared.same != rows:
        warn(
            f"{path} differs from what was released, from position {compared.same} on: it is "
            "rewritten from the journal"
        )
        return 0
    return rows


def _output_facts(path: str, format_name: str | None) -> dict[str, Any]:
    """The metadata of the file; empty where it is missing or damaged."""
    try:
        facts = read_metadata(path, format_name) or {}
    except SourceError:
        return {}
    return facts if type(facts.get("released", 0)) is int else {}


def _output_epoch(facts: Mapping[str, Any]) -> str | None:
    """The id of the noise in a file. None: the file does not tell."""
    try:
        return str(facts["phases"][0]["epoch"])
    except (LookupError, TypeError):
        return None


def check_output_not_ahead(name: str, rows: int, run: CommittedReading) -> None:
    """Refuse a state with fewer rows than its output."""
    if rows > run.position:
        raise _older_output(name, rows, run)


def _check_output_metadata(path: str, facts: Mapping[str, Any], run: CommittedReading) -> None:
    """Refuse metadata with a threshold or a number of values that the state does not know."""
    known, told = [phase.plain() for phase in run.phases], facts["phases"]
    released = facts.get("released", 0)
    if told != known[: len(told)] or released > run.position:
        raise _older_output(path, released, run)


class ComparedOutput(NamedTuple):
    """How many released rows a file has, how many rows in all, and whether all can be read."""

    same: int
    rows: int
    whole: bool


def _check_output_is_ours(
    path: str, theirs: str | None, found: ComparedOutput, run: CommittedReading
) -> None:
    """Refuse a file of another release, of another program, or of a later state."""
    if found.rows and theirs not in (None, run.epoch):
        raise StateError(f"{path} holds another release. Choose another output, or remove this one")
    if found.rows > run.position and (found.same >= run.position or theirs == run.epoch):
        raise _older_output(path, found.rows, run)
    if theirs != run.epoch and (found.same != found.rows or not found.whole):
        raise StateError(
            f"{path} is not what was released. Choose another output, or remove this one"
        )


def _older_output(name: str, told: object, run: CommittedReading) -> StateError:
    return StateError(
        f"{name} holds {told} values, but the state has {run.position}: the state is "
        "older than its output (restored from a backup?). Continuing would use noise a second "
        "time. Put the newest state folder back. If it is gone, its ledger is as old, and does not "
        "count what was charged since: see the runbook before you begin again with "
        "new_epoch=True (--new-epoch)"
    )


def _compared_output(path: str, format_name: str | None, run: CommittedReading) -> ComparedOutput:
    """Compare a file with the journal, row by row."""
    released, rest = run.replay_rows(), Rows(0, np.empty(0), np.empty(0))
    same, rows, agree = 0, 0, True
    try:
        for first, values, levels, times in read_rows_by(run.clock, path, format_name):
            agree = agree and first == rows
            rows = first + values.size
            at = 0
            while agree and at < values.size:
                if not rest.values.size:
                    rest = next(released, rest)
                count = min(rest.values.size, values.size - at)
                differ = values[at : at + count] != rest.values[:count]
                differ |= levels[at : at + count] != rest.levels[:count]
                if (times is None) != (rest.times is None):
                    differ |= True
                elif times is not None and rest.times is not None:
                    differ |= times[at : at + count] != rest.times[:count]
                wrong = np.flatnonzero(differ)
                right = int(wrong[0]) if wrong.size else count
                agree = right == count > 0
                at, same, rest = at + right, same + right, rest.since(rest.first + right)
    except (SourceError, InputError, SettingError):
        return ComparedOutput(same, rows, whole=False)
    return ComparedOutput(same, rows, whole=True)
