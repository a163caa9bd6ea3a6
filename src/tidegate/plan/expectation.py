"""The errors to expect of a pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tidegate.errors import SettingError
from tidegate.lattice import FloatArray, IntArray
from tidegate.pipeline import Pipeline
from tidegate.queries import checked_confidence, quantile
from tidegate.settings import Number, exact, positive, whole
from tidegate.stages import Perturber

PAPER_ROUGHNESS = Fraction(1, 3)
_STARTS = 4096


@dataclass(frozen=True)
class Expectation:
    """The error to expect of a range of `length` values, averaged over where it starts.

    Attributes:
        length: number of values in the range.
        threshold: the θ that was assumed.
        noise_error: root mean square of the noise part: exact.
        prediction_error: root mean square of the in-block part under the stated assumption.
    """

    length: int
    threshold: float
    noise_error: float
    prediction_error: float

    @property
    def standard_error(self) -> float:
        """√(noise_error² + prediction_error²), for the sum of truncated values."""
        return float(np.hypot(self.noise_error, self.prediction_error))


def expect(
    pipeline: Pipeline,
    lengths: Iterable[int],
    *,
    threshold: Number | None = None,
    roughness: Number = PAPER_ROUGHNESS,
) -> list[Expectation]:
    """The error to expect of this pipeline for ranges of these lengths.

    Args:
        pipeline: for example `tops(epsilon=0.1, bound=1657)`.
        lengths: range lengths, in values.
        threshold: the θ to assume; None: the bound, the worst case. Take it from public knowledge.
        roughness: how far a block's mean lies from its prediction, as a share of θ.

    >>> from tidegate import tops
    >>> (day,) = expect(tops(epsilon=0.1, bound=1657), [86_400], threshold=50)
    >>> 3_000 < day.noise_error < 9_000
    True
    """
    lattice = pipeline.lattice
    assumed = lattice.bound if threshold is None else positive("threshold", threshold)
    units = min(max(round(assumed / lattice.resolution), 1), lattice.top)
    return [
        Expectation(
            length,
            units * lattice.step,
            noise_error=float(np.sqrt(noise)) * lattice.step,
            prediction_error=float(np.sqrt(prediction)) * lattice.step,
        )
        for length, noise, prediction in variances(
            pipeline.fixed_stages[0], lengths, units, roughness
        )
    ]


def half_width(pipeline: Pipeline, expectation: Expectation, confidence: float = 0.95) -> float:
    """How far the interval of a range reaches to either side, for what was expected of it.

    >>> from tidegate import tops
    >>> pipeline = tops(epsilon=0.1, bound=1657)
    >>> (day,) = expect(pipeline, [86_400], threshold=50)
    >>> 1.9 < half_width(pipeline, day) / day.standard_error < 2.2
    True
    """
    step = pipeline.lattice.step
    law = pipeline.fixed_stages[0].noise_law(round(expectation.threshold / step))
    times = quantile(
        np.array([expectation.noise_error**2]),
        np.array([law.largest_variance * step**2]),
        checked_confidence(confidence),
    )
    return float(times[0]) * expectation.standard_error


def variances(
    perturber: Perturber, lengths: Iterable[int], threshold: int, roughness: Number
) -> Iterable[tuple[int, float, float]]:
    """Mean variances of noise and prediction per length, in units², over evenly spaced starts."""
    law = perturber.noise_law(threshold)
    block, horizon = perturber.block, perturber.horizon
    off = float(exact("roughness", roughness)) * threshold
    if off < 0:
        raise SettingError("roughness", f"must not be negative, not {roughness}")
    for given in lengths:
        length = whole("length", given, minimum=1)
        last = max(horizon - length, 0) if length <= horizon else horizon - 1
        starts: IntArray = np.unique(np.linspace(0, last, _STARTS).astype(np.int64))
        first, into = np.divmod(starts, block)
        final, beyond = np.divmod(starts + length, block)
        cut: FloatArray = np.where(
            first == final, float(length) ** 2, np.square(into * 1.0) + np.square(beyond * 1.0)
        )
        prediction = off**2 * float(cut.mean()) if block > 1 else 0.0
        yield length, float(law.range_variance(first, final).mean()), prediction
