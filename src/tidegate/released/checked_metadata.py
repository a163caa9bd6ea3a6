"""The metadata of a released file: found and checked, as untrusted input."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.errors import QueryError, SettingError
from tidegate.exact_numbers import LARGEST, said
from tidegate.io import SourceError, read_metadata
from tidegate.io.file_kind_and_row_count import file_kind_of
from tidegate.released.scan_into_block_sums import DAMAGED
from tidegate.run.phased_run import Phase
from tidegate.run.pipeline import Pipeline


class SimulationError(SourceError):
    """The file is a rehearsal of the local model, which needs other queries.

    Attributes:
        metadata: of the file.
    """

    def __init__(self, metadata: dict[str, Any], problem: str, name: str) -> None:
        super().__init__(None, problem, name)
        self.metadata = metadata


def file_metadata(
    path: str | Path,
    format: str | None,  # noqa: A002  # as in open_source
) -> dict[str, Any]:
    """The public facts inside a released file, or beside it."""
    metadata = read_metadata(path, format)
    if metadata is None:
        where = f"{Path(path).name}.meta.json beside it is missing"
        inside = file_kind_of(path, format).format == "parquet"
        raise SourceError(
            None,
            "carries no metadata of Tidegate, so its noise is not known"
            + (": was it rewritten by another tool?" if inside else f" ({where})"),
            os.fspath(path),
        )
    return metadata


def understood_metadata(metadata: Mapping[str, Any], name: str) -> tuple[Pipeline, list[Phase]]:
    """The settings and the thresholds in a file's metadata."""
    if metadata.get("simulation"):
        problem = (
            "comes from `tidegate local simulate`; its errors are not those of a release. Ask it "
            "with `tidegate query`, by position"
        )
        raise SimulationError(dict(metadata), problem, name)
    if "keys" in metadata:
        raise SourceError(None, "has rows of many keys: open it with tidegate.open", name)
    try:
        settings = metadata["settings"]
        if not isinstance(settings, Mapping):
            raise TypeError("settings are a mapping")
        pipeline = Pipeline.from_settings(settings)
        phases = [Phase(**phase) for phase in metadata["phases"]]
        block = metadata["block"]
        lattice = pipeline.lattice
        top = lattice.top if pipeline.ticks is None else lattice.scale.top
        least, most = -lattice.bottom * lattice.step, top * lattice.step
        well_formed = isinstance(metadata["guarantee"], str) and all(
            _is_phase_in_metadata(vars(phase), least, most) for phase in phases
        )
    except SettingError as error:  # not an option of the user: name the file
        raise SourceError(None, f"its metadata has invalid settings: {error}", name) from None
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


def _is_phase_in_metadata(facts: Mapping[str, Any], least: float, most: float) -> bool:
    """Whether these are a position, a threshold and a floor within the bounds, and an epoch."""
    start, threshold, floor = facts["start"], facts["threshold"], facts["floor"]
    return (
        type(start) is int
        and 0 <= start <= LARGEST
        and isinstance(threshold, int | float)
        and 0 < threshold <= most
        and isinstance(floor, int | float)
        and least <= floor <= 0
        and isinstance(facts["epoch"], str)
    )
