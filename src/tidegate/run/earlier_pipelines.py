"""What earlier versions made of the same arguments: their states are continued as they were begun.

Settings are part of the identity of noise, so a state keeps those that it was begun with. Whoever
runs the same command after an upgrade gives the same arguments, which lead to newer settings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline


def earlier_pipeline(pipeline: Pipeline) -> Pipeline:
    """The pipeline that versions before decision 0126 made of these arguments; mostly itself.

    Post-processing alone differs, so the guarantee is the same.
    """
    if not getattr(pipeline.estimator, "modulated", False):
        return pipeline
    earlier = replace(pipeline, estimator=replace(pipeline.estimator, modulated=False))  # type: ignore[type-var]
    if "kept_history" in pipeline.__dict__:
        earlier.__dict__["kept_history"] = pipeline.kept_history
    return earlier
