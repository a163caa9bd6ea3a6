"""Choose the engine for the keys: arrays, or objects for records and for other methods."""

from __future__ import annotations

from tidegate.keyed.adaptive_array_engine import AdaptiveArrayEngine, fits_adaptive
from tidegate.keyed.event_object_engine import EventObjectEngine
from tidegate.keyed.fixed_array_engine import FixedArrayEngine, fits_fixed_arrays
from tidegate.keyed.object_engine import ObjectEngine
from tidegate.keyed.refined_array_engine import RefinedArrayEngine
from tidegate.keyed.refined_state import refined_state_fits
from tidegate.run.pipeline import Pipeline
from tidegate.run.two_sided_caps import Ends

Engine = ObjectEngine | FixedArrayEngine | AdaptiveArrayEngine | RefinedArrayEngine


def chosen_engine(pipeline: Pipeline, ends: Ends | None, *, record: bool) -> type[Engine]:
    """The engine class for a pipeline whose keys share `ends`; None: each key chooses its own."""
    shared = ends is not None
    if pipeline.ticks is not None:
        return EventObjectEngine
    if record:
        return ObjectEngine
    if fits_fixed_arrays(pipeline, shared=shared):
        return FixedArrayEngine
    if refined_state_fits(pipeline, shared=shared):
        return RefinedArrayEngine
    return AdaptiveArrayEngine if fits_adaptive(pipeline, shared=shared) else ObjectEngine
