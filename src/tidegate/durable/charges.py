"""Which budget each stretch of the input costs: known beforehand, by position alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.guarantee import Guarantee
from tidegate.run.pipeline import Pipeline


@dataclass(frozen=True)
class Cost:
    """A stage that looks at the input positions [start, end); `end` None: for ever."""

    stage: str
    start: int
    end: int | None
    guarantee: Guarantee


def costs(pipeline: Pipeline) -> Iterator[Cost]:
    """Every cost of a release, in the order in which it arises.

    Their maximum over positions of the sum is the pipeline's guarantee: hold-out and stream are
    disjoint; the window of a later selection lies on top of the stream (shared), or in its place
    (blocked). Where the perturber protects the unit itself, a unit may lie across hold-out and
    stream: one cost for both, from the first value on.
    """
    if pipeline.native:
        yield Cost("stream", 0, None, pipeline.guarantee)
        return
    widen = pipeline.unit.widen
    holdout = pipeline.threshold.holdout
    if holdout:
        yield Cost("threshold", 0, holdout, widen(pipeline.threshold.guarantee))
    stream = widen(pipeline.perturber.guarantee)
    again, block = pipeline.reselect, pipeline.perturber.block
    if again is None:
        yield Cost("stream", holdout, None, stream)
        return
    selection = widen(again.threshold.guarantee)
    if not again.blocking:
        yield Cost("stream", holdout, None, stream)
    number, begun = 0, 0
    while True:
        opening, switch = again.opening(number, block), again.switch(number, block)
        if again.blocking:
            end = None if opening is None else holdout + opening
            if end is None or end > holdout + begun:
                yield Cost("stream", holdout + begun, end, stream)
        if opening is None or switch is None:
            return
        yield Cost("threshold", holdout + opening, holdout + switch, selection)
        number, begun = number + 1, switch
