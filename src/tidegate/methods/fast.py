"""FAST: measure few values, chosen by a controller, and follow the stream with a Kalman filter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Unpack

import numpy as np

from tidegate import threshold as thresholds
from tidegate.estimate.sample_and_hold import SampleAndHold
from tidegate.exact_numbers import Number
from tidegate.guarantee import Guarantee
from tidegate.lattice import FloatArray
from tidegate.methods._kalman_and_controller import KalmanFeedback, KalmanLevel
from tidegate.methods._preset import Common, assembled_preset, preset
from tidegate.methods._registration import Method
from tidegate.perturb.sampled_values import SampledStage
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Epsilon, Exact, OptionalWhole, Spec, Whole
from tidegate.stages import Perturber, Recorded, Spans
from tidegate.units import Window

_SHARE = Fraction(15, 100)  # share of a horizon's values that are measured
MOVEMENT = Fraction(1, 100)


@dataclass(frozen=True, kw_only=True, repr=False)
class AdaptiveSampling(SampledStage, Spec):
    """Measures at most `samples` of any `horizon` consecutive values.

    **Privacy**: ε for any `horizon` consecutive values, all replaced at once: for everything that
    one user contributes within a horizon, whatever part of the stream that is. Released: at which
    positions values were measured, and x plus discrete Laplace noise of scale s = ⌈Mθ/ε⌉ there,
    with M = `samples`. The next position is a function of the numbers released before (a filter
    and a controller), so it is the same for two neighbouring streams that released the same so far,
    and says nothing more. A measurement costs θ/s ≤ ε/M; no horizon of consecutive values has more
    than M, counted here and not by the controller: at most ε in sequence. (The paper counts M in
    one finite series; counting in every stretch of that length makes it hold for endless streams.)
    A single value is measured at most once, and has ε/M.

    Args:
        epsilon: the budget of everything within a horizon.
        horizon: how many consecutive values are protected together.
        samples: M; None: 15 % of the horizon.
        movement: by how much of θ the level is expected to move from value to value.
    """

    KIND: ClassVar[str] = "methods.AdaptiveSampling"

    epsilon: Epsilon = Epsilon()
    horizon: Whole = Whole(minimum=1)
    samples: OptionalWhole = OptionalWhole(minimum=1)
    movement: Exact = Exact(default=MOVEMENT)

    @property
    def most(self) -> int:
        """The largest number of measurements within a horizon."""
        usual = max(1, int(_SHARE * self.horizon))
        return min(self.horizon, usual if self.samples is None else self.samples)

    @property
    def guarantee(self) -> Guarantee:
        """ε for a horizon of consecutive values."""
        return Guarantee(epsilon=self.epsilon, unit=Window(length=self.horizon).name)

    def scale(self, threshold: int) -> int:
        """The noise scale of a measurement."""
        return -(-self.most * threshold * self.epsilon.denominator // self.epsilon.numerator)

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """The facts that determine the noise."""
        return (
            f"AdaptiveSampling(horizon={self.horizon}, samples={self.most}, "
            f"threshold={threshold}, scale={self.scale(threshold)}, movement={self.movement})"
        )

    def sampler(self, threshold: int, keystream: Keystream) -> FeedbackSampler:
        """A sampler that decides by released numbers."""
        return FeedbackSampler(self, threshold)


class FeedbackSampler(KalmanFeedback):
    """Measures when the interval is over and the horizon has a measurement left."""

    STATE: ClassVar[tuple[str, ...]] = (*KalmanFeedback.STATE, "sampled", "due")

    def __init__(self, stage: AdaptiveSampling, threshold: int) -> None:
        super().__init__(threshold, stage.movement)
        self._most, self._horizon = stage.most, stage.horizon
        self._scale = stage.scale(threshold)
        self.sampled: list[int] = []  # the last positions that were measured, `most` at least
        self.due = 0  # the position to measure next
        self._position = 0

    def push(self, value: int, position: int) -> int:
        """The noise scale if a measurement is due, else 0. The value itself decides nothing."""
        self._position = position
        if position < self.due:
            return 0
        spent = len(self.sampled) >= self._most
        if spent and self.sampled[-self._most] > position - self._horizon:
            return 0
        return self._scale

    def find(self, values: list[int], start: int, stop: int, position: int) -> tuple[int, int]:
        """The next position that is due and has a measurement left in its horizon."""
        due = self.due
        if len(self.sampled) >= self._most:
            due = max(due, self.sampled[-self._most] + self._horizon)
        at = start + max(0, due - position)
        self._position = position + min(at, stop - 1) - start
        return (at, self._scale) if at < stop else (stop, 0)

    def measured(self, number: int, span: int, scale: int) -> None:
        """Update filter and controller with the released number."""
        self.follow(number, span, scale)
        if scale:
            self.sampled.append(self._position)
            if len(self.sampled) > 2 * self._most:
                del self.sampled[: -self._most]
            self.due = self._position + round(min(self.interval, float(self._horizon)))


@dataclass(frozen=True, kw_only=True, repr=False)
class FilteredLevel(SampleAndHold, Spec):
    """Publishes the posterior mean of a Kalman filter for every value.

    Args:
        movement: by how much of θ the level is expected to move from value to value.
    """

    KIND: ClassVar[str] = "methods.FilteredLevel"

    movement: Exact = Exact(default=MOVEMENT)

    def level_filter(self, *, threshold: int, perturber: Perturber) -> KalmanLevel:
        """The filter, starting at half the threshold."""
        return KalmanLevel(threshold, self.movement)

    def level_variances(self, recorded: Recorded, spans: Spans) -> FloatArray:
        """Posterior variances, including the covariance of neighbouring levels.

        Errors of levels i < j have the covariance P_i·w with w = Π (1 − gain) between them, never
        negative; 2·m_i·m_j ≤ m_i² + m_j² gives half of it to either. Where innovations were larger
        than the filter expected, all variances are larger by as much.
        """
        step = (float(self.movement) * recorded.threshold) ** 2
        variance, last, behind, ahead = recorded.threshold**2 / 12, 0.0, 0.0, 0.0
        widths = np.diff(spans.edges).tolist()
        marks = spans.marks.tolist()
        misses = np.square(spans.numbers - spans.levels[:-1]).tolist()
        own, shared, kept = np.zeros((3, len(marks)))
        ratios = []
        for at, (width, mark, miss) in enumerate(zip(widths, marks, misses, strict=True)):
            variance += width * step
            if mark:
                expected = variance + 2.0 * mark * mark
                ratios.append(miss / expected)
                kept[at] = 1 - variance / expected
                variance *= kept[at]
                behind = kept[at] * (last + behind)
                own[at], shared[at], last = variance, behind, variance
        for at in range(len(marks) - 1, -1, -1):
            if marks[at]:
                shared[at] += own[at] * ahead
                ahead = kept[at] * (1 + ahead)
        surprise = max(1.0, math.fsum(ratios) / max(1, len(ratios)))
        found: FloatArray = (own + shared) * surprise
        return found


@preset
def fast(
    epsilon: Number,
    bound: Number,
    *,
    horizon: int = 1000,
    samples: int | None = None,
    movement: Number = MOVEMENT,
    **common: Unpack[Common],
) -> Pipeline:
    """Measures few values, chosen by a controller, and filters; for whole series of users.

    FAST: adaptive sampling and filtering, in exact arithmetic. A few values are measured, more
    often when the filter is surprised; between them the filter's level is published. ε is for any
    `horizon` consecutive values together, natively: for the whole contribution of a user to a
    series of that length. θ is the bound, as published: a hold-out would cost each of its values.

    When: all that a user contributes to a horizon is protected; assumes a level that moves slowly.
    Reference: Fan, Xiong, Real-time Aggregate Monitoring with Differential Privacy, CIKM 2012; An
        Adaptive Approach to Real-Time Aggregate Monitoring, TKDE 2014.

    Args:
        horizon: how many consecutive values ε protects together.
        samples: how many of them are measured at most; None: 15 %.
        movement: by how much of the bound the level is expected to move from value to value.

    >>> print(fast(epsilon=1, bound=50, horizon=500).guarantee)
    ε = 1 per window of 500 consecutive values (exact arithmetic, central model)
    """
    return assembled_preset(
        threshold=thresholds.Fixed(bound),
        perturber=AdaptiveSampling(
            epsilon=epsilon, horizon=horizon, samples=samples, movement=movement
        ),
        estimator=FilteredLevel(movement=movement),
        unit=Window(length=horizon),
        **common,
    )


METHOD = Method(fast, stages=(AdaptiveSampling, FilteredLevel), example={"epsilon": 20})
