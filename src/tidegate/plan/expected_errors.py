"""The errors to expect of a pipeline."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, exact, positive, said, whole
from tidegate.lattice import FloatArray, IntArray
from tidegate.plan.expected_errors_of_adaptive import mean_adaptive_errors, played_adaptive
from tidegate.record.range_queries_and_answers import Answers, truncation_errors_of_answers
from tidegate.record.record import error_multiple, record_confidence
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Exact
from tidegate.stages import Excess, Perturber, fixed_law

PAPER_ROUGHNESS = Fraction(1, 3)
_STARTS = 4096


@dataclass(frozen=True)
class Expectation:
    """The expected error for ranges of `length` values, averaged over their starts.

    Attributes:
        length: number of values in the range.
        threshold: the θ that was assumed.
        floor: the lowest value that was assumed to count.
        noise_error: root mean square of the noise part: exact (of an adaptive release: of what the
            forecaster does not know, under the stated assumption).
        prediction_error: root mean square of the in-block part under the stated assumption.
        largest_variance: of the noisiest single draw; says how heavy the tails are.
        excess: what truncation takes away, if the threshold is what its rule aims at; None: not
            known, and in no interval.
    """

    length: int
    threshold: float
    noise_error: float
    prediction_error: float
    largest_variance: float = 0.0
    floor: float = 0.0
    excess: Excess | None = None

    @property
    def width(self) -> float:
        """The distance between both caps: noise is scaled to it."""
        return self.threshold - self.floor

    @property
    def truncation_error(self) -> float:
        """The standard error of what truncation takes away; 0 if unknown."""
        return 0.0 if self.excess is None else truncation_errors_of_answers(self.excess).item()

    @property
    def standard_error(self) -> float:
        """√(noise_error² + prediction_error² + truncation_error²)."""
        return math.hypot(self.noise_error, self.prediction_error, self.truncation_error)


def expect(
    pipeline: Pipeline,
    lengths: Iterable[int] | int,
    *,
    threshold: Number | None = None,
    floor: Number | None = None,
    roughness: Number = PAPER_ROUGHNESS,
) -> list[Expectation]:
    """The expected errors of a pipeline for ranges of these lengths.

    Args:
        pipeline: for example `tops(epsilon=0.1, bound=1657)`.
        lengths: range lengths, in values; or one.
        threshold: the θ to assume; None: the bound, the worst case. Take it from public knowledge.
        floor: the lowest value to assume that counts; None: `lower`, the worst case.
        roughness: how far a block's mean lies from its prediction, as a share of θ. For an
            adaptive pipeline: how far the stream's level drifts over a horizon
            (`tidegate.plan.expected_errors_of_adaptive`).

    >>> from tidegate import adaptive, tops
    >>> (day,) = expect(tops(epsilon=0.1, bound=1657), [86_400], threshold=50)
    >>> 3_000 < day.noise_error < 9_000
    True
    >>> pipeline = adaptive(epsilon=0.1, bound=1657)
    >>> (calm,) = expect(pipeline, [86_400], threshold=50, roughness=0.01)
    >>> calm.noise_error < day.noise_error / 2
    True
    """
    if not isinstance(pipeline, Pipeline):
        raise SettingError(
            "pipeline",
            "must be one of the central model, such as tidegate.adaptive(1, 100); of the local "
            "model, pipeline.simulate(…) shows the error",
        )
    lattice = pipeline.lattice
    if isinstance(lengths, int):
        lengths = [lengths]
    lengths = [whole("length", length, minimum=1) for length in lengths]
    assumed = lattice.bound if threshold is None else positive("threshold", threshold)
    if assumed > lattice.bound:
        raise SettingError(
            "threshold",
            f"must not exceed the bound {float(lattice.bound):g}, not {said(threshold)}: values "
            "are cut at the bound. Use a larger bound, or a smaller threshold",
        )
    lowest = lattice.lower if floor is None else exact("floor", floor)
    if not lattice.lower <= lowest <= 0:
        raise SettingError(
            "floor", f"must lie between `lower` ({float(lattice.lower):g}) and 0, not {said(floor)}"
        )
    below = min(math.ceil(-lowest / lattice.resolution), lattice.bottom)
    units = below + min(max(round(assumed / lattice.resolution), 1), lattice.top)
    if pipeline.perturber.irregular:
        raise SettingError(
            "pipeline", "has errors that depend on what it will measure: simulate it instead"
        )
    if not pipeline.estimator.adds_up:
        return _expect_adaptive(pipeline, lengths, units, below, _checked(roughness))
    largest = fixed_law(pipeline.perturber, units).largest_variance
    return [
        Expectation(
            length,
            (units - below) * lattice.step,
            noise_error=float(np.sqrt(noise)) * lattice.step,
            prediction_error=float(np.sqrt(prediction)) * lattice.step,
            largest_variance=largest * lattice.step**2,
            floor=-below * lattice.step,
        )
        for length, noise, prediction in expected_variances(
            pipeline.perturber, lengths, units, roughness
        )
    ]


def _expect_adaptive(
    pipeline: Pipeline, lengths: list[int], units: int, below: int, roughness: float
) -> list[Expectation]:
    stage = pipeline.perturber
    step = pipeline.lattice.step
    bounds = pipeline.ceiling, pipeline.lattice.bottom
    record = played_adaptive(stage, pipeline.estimator, units, bounds, roughness, below)
    return [
        Expectation(
            length,
            (units - below) * step,
            noise_error=math.sqrt(parts.noise_variance.item()) * step,
            prediction_error=math.sqrt(parts.prediction_variance.item()) * step,
            largest_variance=parts.largest_variance * step**2,
            floor=-below * step,
            excess=_in_unit(parts.excess, step),
        )
        for length, parts in zip(
            lengths, mean_adaptive_errors(record, stage.horizon, lengths), strict=True
        )
    ]


def _in_unit(excess: Excess | None, step: float) -> Excess | None:
    """Convert from lattice units to the unit of the data."""
    if excess is None:
        return None
    found = Excess(*(part * step for part in excess))
    return found._replace(variance=found.variance * step)


def half_width(
    pipeline: Pipeline,  # noqa: ARG001  # says whose expectation it is; all callers have one
    expectation: Expectation,
    confidence: float = 0.95,
) -> float:
    """Half the width of the interval of a range, from its expectation.

    >>> from tidegate import tops
    >>> pipeline = tops(epsilon=0.1, bound=1657)
    >>> (day,) = expect(pipeline, [86_400], threshold=50)
    >>> 1.9 < half_width(pipeline, day) / day.standard_error < 2.2
    True
    """
    confidence = record_confidence(confidence)
    noise, prediction = (
        np.array([error**2]) for error in (expectation.noise_error, expectation.prediction_error)
    )
    start = np.zeros(1, dtype=np.int64)
    answer = Answers.around(
        np.zeros(1),
        start,
        start + expectation.length,
        noise,
        prediction,
        errors=error_multiple(noise, np.array([expectation.largest_variance]), confidence),
        excess=expectation.excess,
        confidence=confidence,
        threshold=expectation.threshold,
    )
    return float(answer.high[0] - answer.low[0]) / 2


def expected_variances(
    perturber: Perturber, lengths: Iterable[int], threshold: int, roughness: Number
) -> Iterable[tuple[int, float, float]]:
    """Mean variances of noise and prediction per length, in units², over evenly spaced starts."""
    law = fixed_law(perturber, threshold)
    block, horizon = perturber.block, perturber.horizon
    off = _checked(roughness) * threshold
    for given in lengths:
        length = whole("length", given, minimum=1)
        first, final, cut = _expected_ranges(horizon, block, length)
        prediction = off**2 * cut if block > 1 else 0.0
        yield length, float(law.range_variance(first, final).mean()), prediction


@lru_cache(maxsize=64)  # a search for ε, and one for a tree, ask for the same ranges many times
def _expected_ranges(horizon: int, block: int, length: int) -> tuple[IntArray, IntArray, float]:
    """The leaves of evenly spaced ranges, and the mean square of what they cut off blocks."""
    last = max(horizon - length, 0) if length <= horizon else horizon - 1
    starts: IntArray = np.unique(np.linspace(0, last, _STARTS).astype(np.int64))
    first, into = np.divmod(starts, block)
    final, beyond = np.divmod(starts + length, block)
    cut: FloatArray = np.where(
        first == final, float(length) ** 2, np.square(into * 1.0) + np.square(beyond * 1.0)
    )
    for shared in (first, final):
        shared.flags.writeable = False
    return first, final, float(cut.mean())


def _checked(roughness: Number) -> float:
    share = exact("roughness", roughness)
    if not 0 <= share <= Exact.largest:
        raise SettingError("roughness", f"must be 0 to 1e18, not {said(roughness)}")
    return float(share)
