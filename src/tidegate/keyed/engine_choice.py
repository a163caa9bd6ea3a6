"""Which engine runs the keys: arrays where they can and no record is kept, or objects."""

from __future__ import annotations

from tidegate.keyed.adaptive_array_engine import AdaptiveArrayEngine, fits_adaptive
from tidegate.keyed.event_object_engine import EventObjects
from tidegate.keyed.fixed_array_engine import ArrayEngine, runs_in_columns
from tidegate.keyed.object_engine import Objects
from tidegate.keyed.refined_array_engine import RefinedArrayEngine
from tidegate.keyed.refined_state import fits_refined
from tidegate.run.pipeline import Pipeline
from tidegate.run.two_sided_caps import Ends

Engine = Objects | ArrayEngine | AdaptiveArrayEngine | RefinedArrayEngine


def engine(pipeline: Pipeline, ends: Ends | None, *, record: bool) -> type[Engine]:
    """The kind of engine for a pipeline whose keys share `ends`; None: each chooses its own."""
    shared = ends is not None
    if pipeline.ticks is not None:
        return EventObjects
    if record:
        return Objects
    if runs_in_columns(pipeline, shared=shared):
        return ArrayEngine
    if fits_refined(pipeline, shared=shared):
        return RefinedArrayEngine
    return AdaptiveArrayEngine if fits_adaptive(pipeline, shared=shared) else Objects
