"""The default resolution and the default candidates for θ, derived from public settings.

    0 ··········|··········|··········|··········| … bound     | thresholds: multiples of the step
      └ values: multiples of the resolution, up to a millionth of it

What a choice of θ pays for grows with the number of thresholds, so these are few where little is
known: 1,024 and more (`tidegate.lattice.default_resolution`). Values are rounded far more finely,
so that rounding shows neither in what is small beside the bound nor in sums of many values.

Privacy: it looks at no data. Noise is drawn in multiples of the resolution, at the same scale in
the unit of the data; replacing a value moves a sum by at most θ, whatever both are multiples of.
"""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING

from tidegate.errors import SettingError
from tidegate.lattice import FINE, GRAIN, default_resolution
from tidegate.run.two_sided_caps import two_sided_scale_rule

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline


# The largest scale of noise, in units, at the bound. Floats propose noise, and more of it is left
# to integers, a thousand times slower, the larger the scale is: all from 2⁴⁰ on, 6 % at 2³⁶, less
# than 1 % where θ is a tenth of the bound. Trees that are chosen block by block have few nodes.
_QUICK, _QUICK_FOR_FEW = 1 << 36, 1 << 40
# Ticks of events have room for 65,536 events at the bound (`EventTrees.check`), times this: what is
# more is cut, and nothing released says so.
_ROOM = 1 << 8


def decide_resolution(pipeline: Pipeline) -> None:
    """Set the finest default that 64-bit sums allow; it is stored and compared as a number."""
    rules = [two_sided_scale_rule(rule) if pipeline.lower else rule for rule in pipeline.rules]
    steps = min(getattr(rule, "steps", FINE) for rule in rules)
    bound = pipeline.threshold.bound
    resolution = default_resolution(max(bound, -pipeline.lower), steps)
    if resolution > bound:  # `lower` reaches much further down than the bound up
        resolution = default_resolution(bound, 1)
    while True:
        _keep_resolution(pipeline, resolution, None)
        try:
            pipeline.measurer.check(pipeline.widest)
            break
        except SettingError as problem:
            if problem.setting != "resolution" or resolution * 10 > 1:
                raise
        if resolution * 10 > bound:
            raise SettingError("bound", "is too small beside `lower`: 64 bits cannot sum both")
        resolution *= 10
    if all(hasattr(rule, "steps") for rule in rules):
        _refine_resolution(pipeline, resolution)


def _refine_resolution(pipeline: Pipeline, step: Fraction) -> None:
    """Keep `step` for thresholds, and the finest parts of it that fit for values.

    64 bits must hold all sums, noise must be drawn quickly, and ticks have room for their events.
    """
    grain, room = GRAIN, 1 if pipeline.ticks is None else _ROOM
    few = pipeline.measurer.noise_law(1) is None and not pipeline.measurer.irregular
    largest = room * (_QUICK_FOR_FEW if few else _QUICK)
    while grain > 1:
        _keep_resolution(pipeline, step / grain, step)
        with suppress(SettingError):
            if pipeline.measurer.check(pipeline.widest * room) <= largest:
                return
        grain //= 10
    _keep_resolution(pipeline, step, None)


def _keep_resolution(
    pipeline: Pipeline, resolution: Fraction, threshold_step: Fraction | None
) -> None:
    pipeline.__dict__.update(resolution=resolution, threshold_step=threshold_step)
    for decided in ("lattice", "ceiling"):
        pipeline.__dict__.pop(decided, None)
