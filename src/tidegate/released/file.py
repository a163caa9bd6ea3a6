"""The file and its metadata."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tidegate.errors import QueryError, SettingError, TidegateError
from tidegate.exact_numbers import LARGEST, said
from tidegate.io import SourceError, read_metadata
from tidegate.io.errors import source_error
from tidegate.io.kinds import kind_of
from tidegate.record.record import Record
from tidegate.released.growth import grown_from
from tidegate.released.index import Index, built
from tidegate.released.scan import DAMAGED, checked, scan, stretches
from tidegate.run.phases import Phase
from tidegate.run.pipeline import Pipeline
from tidegate.run.snapshot import record_of
from tidegate.sealing import MALFORMED


@dataclass(frozen=True)
class ReleasedFile:
    """A file that `tidegate release` wrote. Made by `ReleasedFile.open`.

    Attributes:
        path: the file.
        metadata: the public facts it carries, as `tidegate.durable` describes a release.
        pipeline: the settings it was released with.
        record: its block sums, ready for queries.
    """

    path: Path
    metadata: dict[str, Any]
    pipeline: Pipeline
    record: Record

    @classmethod
    def open(
        cls,
        path: str | Path,
        format: str | None = None,  # noqa: A002  # as in open_source
    ) -> ReleasedFile:
        """Read the index, or scan the file if there is none that fits.

        Raises:
            SourceError: if it cannot be read, has no metadata, or its rows do not count up.
        """
        try:
            return cls._opened(path, format)
        except MALFORMED as error:  # metadata may come from anywhere, and say anything
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
        kind, index = kind_of(path, format), Index.read(index_path)
        before: Index | None = None  # of the file as it was
        if index is not None and index.version != version:
            index, before = None, index
        # A Parquet file's facts are inside it, so that they cannot be newer than its index.
        if index is not None and kind.format == "parquet":
            metadata = index.metadata
        else:
            metadata = _metadata(path, format)
        pipeline, phases = _understood(metadata, name)
        if not pipeline.estimator.adds_up:
            return cls(Path(path), metadata, pipeline, _carried(metadata, pipeline, name))
        if index is None or index.metadata != metadata:
            parts = stretches(pipeline, phases, name)
            before, prefix = grown_from(before, place, kind, found.st_size, metadata, parts)

            def scanned(out: IO[bytes]) -> dict[str, Any]:
                if before is None:
                    return scan(out, pipeline, parts, checked(path, format, phases[0].start))
                before.copy(out, pipeline.perturber.block)
                start, skipped = before.footer["position"], before.version["size"]
                new = checked(path, format, start, skipped)
                return scan(out, pipeline, parts, new, before.footer)

            facts = {"version": version, "metadata": metadata, "prefix": prefix}
            index = built(index_path, found.st_mode, facts, scanned)
        return cls(Path(path), metadata, pipeline, index.record(pipeline, metadata["guarantee"]))

    @property
    def guarantee(self) -> str:
        """What was promised to those whose values these are."""
        return self.record.guarantee

    @property
    def thresholds(self) -> list[Phase]:
        """Every threshold, and the position from which on it holds."""
        return [Phase(**phase) for phase in self.metadata["phases"]]

    @property
    def truncation(self) -> list[float]:
        """Every level at which values were truncated, lowest first."""
        if not self.pipeline.estimator.adds_up:
            return sorted({cap for segment in self.record.segments for cap in segment.caps})
        return sorted({phase.threshold for phase in self.thresholds})

    @property
    def note(self) -> str:
        """What to know about answers from this file, or nothing."""
        if not self.pipeline.estimator.adds_up:
            return (
                "Answers use all that was released up to now, from the record that the file "
                "carries: they differ a little from the sums of its rows, each of which was "
                "published as of its time."
            )
        return self.debts

    @property
    def debts(self) -> str:
        """What to know about a file that was made non-negative, if sums are taken from its rows."""
        if not self.pipeline.estimator.adds_up or not self.pipeline.non_negative:
            return ""
        return (
            "The file was made non-negative: block sums include debts carried over from negative "
            "values, so that a range may also be off by the debt at either end. The state's own "
            "record has none of this."
        )


def _metadata(path: str | Path, format: str | None) -> dict[str, Any]:  # noqa: A002  # as above
    metadata = read_metadata(path, format)
    if metadata is None:
        where = f"{Path(path).name}.meta.json beside it is missing"
        inside = kind_of(path, format).format == "parquet"
        raise SourceError(
            None,
            "carries no metadata of Tidegate, so its noise is not known"
            + (": was it rewritten by another tool?" if inside else f" ({where})"),
            os.fspath(path),
        )
    return metadata


def _carried(metadata: Mapping[str, Any], pipeline: Pipeline, name: str) -> Record:
    """The record that the facts about a release hold."""
    if "record" not in metadata:
        problem = (
            "carries no record of what was measured: let `tidegate release` write its metadata "
            "anew (with --state, by the same command), or sum its rows, without intervals"
        )
        raise SourceError(None, problem, name)
    try:
        record = record_of(pipeline, metadata["record"], metadata["guarantee"])
        if not record.segments:
            raise ValueError("a record has segments")
        return record
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError):
        raise SourceError(None, DAMAGED, name) from None


def _understood(metadata: Mapping[str, Any], name: str) -> tuple[Pipeline, list[Phase]]:
    if metadata.get("simulation"):
        problem = (
            "is a rehearsal of the local model, whose errors are not those of a release: ask the "
            "simulation itself (in Python, tidegate.topl(...).simulate(values).query)"
        )
        raise SourceError(None, problem, name)
    try:
        settings = metadata["settings"]
        if not isinstance(settings, Mapping):
            raise TypeError("settings are a mapping")
        pipeline = Pipeline.from_settings(settings)
        phases = [Phase(**phase) for phase in metadata["phases"]]
        block = metadata["block"]
        most = pipeline.lattice.top * pipeline.lattice.step
        well_formed = isinstance(metadata["guarantee"], str) and all(
            _is_phase(vars(phase), most) for phase in phases
        )
    except SettingError as error:  # which is no mistake of who asks: it names the file
        raise SourceError(
            None, f"its metadata has settings that cannot be: {error}", name
        ) from None
    except (KeyError, TypeError, AttributeError, ValueError):
        raise SourceError(None, DAMAGED, name) from None
    if not well_formed:
        raise SourceError(None, DAMAGED, name)
    if not phases:
        if pipeline.warm_up:
            problem = "its rows are placeholders of a warm-up that is still open"
            raise QueryError(f"{name}: nothing was measured yet, {problem}")
        raise QueryError(f"{name}: nothing was released yet")
    if block != pipeline.perturber.block:
        problem = (
            f"has blocks of {said(block)}, where this Tidegate makes {pipeline.perturber.block}"
        )
        raise SourceError(
            None, f"{problem}: use the version {said(metadata.get('tidegate'))}", name
        )
    return pipeline, phases


def _is_phase(facts: Mapping[str, Any], most: float) -> bool:
    """Whether these are a position, a threshold of at most `most`, and the name of an epoch."""
    start, threshold = facts["start"], facts["threshold"]
    return (
        type(start) is int
        and 0 <= start <= LARGEST
        and isinstance(threshold, int | float)
        and 0 < threshold <= most
        and isinstance(facts["epoch"], str)
    )
