"""What earlier versions made of the same arguments: their states are continued as they were begun.

Settings are part of the identity of noise, so a state keeps those that it was begun with. Whoever
runs the same command after an upgrade gives the same arguments, which lead to newer settings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline


def earlier_pipelines(pipeline: Pipeline) -> list[Pipeline]:
    """The pipelines that earlier versions made of these arguments, newest first; mostly one.

    How values are rounded and post-processing alone differ, so the guarantee is the same.
    """
    found = []
    if getattr(pipeline.perturber, "sizes", False):  # decision 0143: events are counted by size
        perturber = replace(pipeline.perturber, sizes=False)  # type: ignore[type-var]
        found.append(_changed_pipeline(pipeline, perturber=perturber))
    newest = found[-1] if found else pipeline
    if pipeline.threshold_step is not None:  # decision 0136: values are rounded more finely
        coarse = {"resolution": pipeline.threshold_step, "threshold_step": None}
        found.append(_changed_pipeline(newest, **coarse))
    newest = found[-1] if found else pipeline
    if getattr(pipeline.estimator, "modulated", False):  # decision 0126: days follow the week
        estimator = replace(pipeline.estimator, modulated=False)  # type: ignore[type-var]
        found.append(_changed_pipeline(newest, estimator=estimator))
    return found


def _changed_pipeline(pipeline: Pipeline, **settings: Any) -> Pipeline:
    earlier = replace(pipeline, **settings)
    if "kept_history" in pipeline.__dict__:
        earlier.__dict__["kept_history"] = pipeline.kept_history
    return earlier
