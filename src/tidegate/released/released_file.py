"""`ReleasedFile`: a released file and its metadata."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from tidegate.errors import SettingError, TidegateError
from tidegate.io import SourceError, read_released, read_rows
from tidegate.io.errors import source_error
from tidegate.io.file_kind_and_row_count import file_kind_of
from tidegate.io.metadata_files import unfinished_run_note
from tidegate.record.range_queries_and_answers import Answers
from tidegate.record.record import Record
from tidegate.record.rows_and_levels import Rows
from tidegate.released.checked_metadata import file_metadata, understood_metadata
from tidegate.released.released import ReleasedTable
from tidegate.released.scan_into_block_sums import (
    DAMAGED,
    checked_scan,
    scan_block_sums,
    scanned_spans,
)
from tidegate.released.smoothed_file import SmoothedFile
from tidegate.released.sums_index_file import SumsIndex, built_sums_index, sums_index_grown_from
from tidegate.released.times_index_file import times_index_of_file
from tidegate.run.phased_run import Phase
from tidegate.run.pipeline import Pipeline
from tidegate.run.snapshot import record_of_snapshot
from tidegate.state_as_bytes import MALFORMED


@dataclass(frozen=True, repr=False)
class ReleasedFile(ReleasedTable):
    """A file that `tidegate release` wrote. Made by `ReleasedFile.open`.

    Attributes:
        path: the file.
        metadata: its public facts, as written by `tidegate.run.public_facts`.
        pipeline: the settings it was released with.
        record: its block sums, ready for queries.
        format: as given to `open`; None: its extension tells.
        smoothed: what smoothing the record gave, beside the file; None: it is not kept.
    """

    path: Path
    metadata: dict[str, Any]
    pipeline: Pipeline
    record: Record
    format: str | None = None
    smoothed: SmoothedFile | None = field(default=None, compare=False)

    @classmethod
    def open(
        cls,
        path: str | Path,
        format: str | None = None,  # noqa: A002  # as in open_source
    ) -> ReleasedFile:
        """Read the index; or scan the file if no index matches.

        Raises:
            SourceError: if it cannot be read, has no metadata, or its rows do not count up.
        """
        try:
            return cls._opened(path, format)
        except MALFORMED as error:  # metadata is untrusted input
            if isinstance(error, TidegateError):
                raise
            raise SourceError(None, DAMAGED, os.fspath(path)) from None

    @classmethod
    def _opened(cls, path: str | Path, format: str | None) -> ReleasedFile:  # noqa: A002  # as above
        place = Path(os.path.realpath(path))
        name = os.fspath(path)
        try:
            found = place.stat()
        except OSError as error:
            raise source_error(error, name) from None
        if not stat.S_ISREG(found.st_mode):
            raise SourceError(None, "is not a file: only files can be queried", name)
        version = {"size": found.st_size, "mtime_ns": found.st_mtime_ns}
        index_path = place.with_name(f".{place.name}.tidegate-index")
        kind, index = file_kind_of(path, format), SumsIndex.read(index_path)
        before: SumsIndex | None = None  # of the file as it was
        if index is not None and index.version != version:
            index, before = None, index
        # A Parquet file's facts are inside it, so that they cannot be newer than its index.
        if index is not None and kind.format == "parquet":
            metadata = index.metadata
        else:
            metadata = file_metadata(path, format)
        pipeline, phases = understood_metadata(metadata, name)
        if not pipeline.estimator.adds_up:
            record = _carried_by_file(metadata, pipeline, name)
            record.times = times_index_of_file(path, format, metadata, version)
            record.note = f"{record.note} {unfinished_run_note(metadata)}".strip()
            smoothed = SmoothedFile.beside(place, metadata, found.st_mode, record)
            return cls(Path(path), metadata, pipeline, record, format, smoothed)
        if index is None or index.metadata != metadata:
            parts = scanned_spans(pipeline, phases, name)
            before, prefix = sums_index_grown_from(
                before, place, kind, found.st_size, metadata, parts
            )

            def scanned(out: IO[bytes]) -> dict[str, Any]:
                if before is None:
                    return scan_block_sums(
                        out, pipeline, parts, checked_scan(path, format, phases[0].start)
                    )
                before.copy(out, pipeline.perturber.block)
                start, skipped = before.footer["position"], before.version["size"]
                new = checked_scan(path, format, start, skipped)
                return scan_block_sums(out, pipeline, parts, new, before.footer)

            facts = {"version": version, "metadata": metadata, "prefix": prefix}
            index = built_sums_index(index_path, found.st_mode, facts, scanned)
        record = index.record(pipeline, metadata["guarantee"])
        record.times = times_index_of_file(path, format, metadata, version)
        record.note = f"{record.note} {unfinished_run_note(metadata)}".strip()
        return cls(Path(path), metadata, pipeline, record, format)

    def __repr__(self) -> str:
        early = "not complete; " if self.unfinished else ""
        return f"<ReleasedFile {self.title}: {len(self):,} rows; {early}{self.guarantee}>"

    def _answered(self, ask: Callable[[Record], Answers]) -> Answers:
        found = ask(self.record)
        if self.smoothed is not None:
            self.smoothed.keep(self.record)
        return found

    @property
    def guarantee(self) -> str:
        """The guarantee."""
        return self.record.guarantee

    @property
    def threshold(self) -> float | None:
        """The latest threshold, in the unit of the data."""
        return self.thresholds[-1].threshold

    @property
    def title(self) -> str:
        """The name of the file."""
        return self.path.name

    def blocks(self) -> Iterator[Rows]:
        """The rows, block by block; a `SettingError` if they have no levels."""
        return read_rows(self.path, self.format)

    def rows(self) -> Rows:
        """All rows, in memory: 24 bytes each."""
        try:
            parts = list(self.blocks())
        except SettingError:  # written by `open_sink` without levels
            found = list(read_released(self.path, self.format))
            parts = [Rows(first, values, np.full_like(values, np.nan)) for first, values in found]
        if not parts:
            return Rows(self.record.start, np.zeros(0), np.zeros(0))
        values, levels = (np.concatenate([part[at] for part in parts]) for at in (1, 2))
        times = [part.times for part in parts if part.times is not None]
        return Rows(parts[0].first, values, levels, np.concatenate(times) if times else None)

    @property
    def thresholds(self) -> list[Phase]:
        """Every threshold with its first position."""
        return [Phase(**phase) for phase in self.metadata["phases"]]

    @property
    def truncation(self) -> list[float]:
        """All caps of values, lowest first."""
        if not self.pipeline.estimator.adds_up:
            return sorted({cap for segment in self.record.segments for cap in segment.caps})
        return sorted({phase.threshold for phase in self.thresholds})

    @property
    def note(self) -> str:
        """A note on answers from this file; may be empty."""
        if not self.pipeline.estimator.adds_up:
            return (
                "These estimates also use later data, so they differ slightly from adding up the "
                "rows."
            )
        return self.debts

    @property
    def unfinished(self) -> str:
        """A note if the run that wrote the file did not end; else empty."""
        return unfinished_run_note(self.metadata)

    @property
    def shared(self) -> str:
        """A note about other released columns of the same rows, with their ε; may be empty."""
        said = self.metadata.get("together")
        if not isinstance(said, dict) or not isinstance(said.get("columns"), dict):
            return ""
        names = ", ".join(map(str, said["columns"]))
        return f"With all columns of the run ({names}): {said.get('guarantee', 'not known')}."

    def _facts(self) -> list[tuple[str, object]]:
        said = [("complete", "no")] if self.unfinished else []
        return [*super()._facts(), *said]

    @property
    def debts(self) -> str:
        """A note on sums of rows of a non-negative file; may be empty."""
        if not self.pipeline.estimator.adds_up or not self.pipeline.non_negative:
            return ""
        return (
            "The file was made non-negative: negative values were carried over as debts into later "
            "rows, so a range may also be off by the debt at either end. The record in the durable "
            "state does not have this error."
        )


def _carried_by_file(metadata: Mapping[str, Any], pipeline: Pipeline, name: str) -> Record:
    """The record inside the metadata."""
    if "record" not in metadata:
        problem = (
            "has no record of what was measured, so there are no intervals. Let `tidegate release` "
            "write its metadata again (the same command, with --state), or add up its rows"
        )
        raise SourceError(None, problem, name)
    try:
        record = record_of_snapshot(pipeline, metadata["record"], metadata["guarantee"])
        if not record.segments:
            raise ValueError("a record has segments")
        return record
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError):
        raise SourceError(None, DAMAGED, name) from None
