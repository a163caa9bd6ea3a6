"""Pipelines that earlier versions built from the same arguments: their states can still be resumed.

Settings are part of the identity of noise, so a state keeps those that it began with. The same
command after an upgrade gives the same arguments, which lead to newer settings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidegate.units import Window

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline


def earlier_pipelines(pipeline: Pipeline) -> list[Pipeline]:
    """The pipelines that earlier versions built from these arguments, newest first; usually one.

    They differ in rounding, in post-processing and in what a part of ε is spent on: the guarantee
    is the same.
    """
    found: list[Pipeline] = []
    newest = pipeline
    if getattr(pipeline.perturber, "sizes", False):  # decision 0143: events are counted by size
        perturber = replace(pipeline.perturber, sizes=False)  # type: ignore[type-var]
        found.append(newest := _changed_pipeline(newest, perturber=perturber))
    if getattr(pipeline.reselect, "looks", False):  # decision 0144: late looks
        reselect = replace(pipeline.reselect, looks=False)  # type: ignore[type-var]
        found.append(newest := _changed_pipeline(newest, reselect=reselect))
    if isinstance(pipeline.unit, Window) and getattr(pipeline.estimator, "catch_up", None):
        # Decision 0145: in windows, what corrects running sums is published in parts.
        at_once = replace(pipeline.estimator, catch_up=None)  # type: ignore[type-var]
        found.append(newest := _changed_pipeline(newest, estimator=at_once))
    if pipeline.threshold_step is not None:  # decision 0136: values are rounded more finely
        coarse = {"resolution": pipeline.threshold_step, "threshold_step": None}
        found.append(newest := _changed_pipeline(newest, **coarse))
    if getattr(pipeline.estimator, "modulated", False):  # decision 0126: days follow the week
        estimator = replace(pipeline.estimator, modulated=False)  # type: ignore[type-var]
        found.append(_changed_pipeline(newest, estimator=estimator))
    return found


def _changed_pipeline(pipeline: Pipeline, **settings: Any) -> Pipeline:
    earlier = replace(pipeline, **settings)
    if "kept_history" in pipeline.__dict__:
        earlier.__dict__["kept_history"] = pipeline.kept_history
    return earlier
