"""The Kalman filter of `fast` and `rescue_dp`, and the controller that decides when to measure."""

from __future__ import annotations

import math
from collections.abc import Collection
from fractions import Fraction
from typing import ClassVar

import numpy as np

from tidegate.estimate.mixture.portable_exp_and_log import one_exp
from tidegate.estimate.sample_and_hold import MeasuredLeaves
from tidegate.lattice import FloatArray

# A controller with a proportional and an integral part, as in the paper; the constants are ours:
# gains, errors that are remembered, set point, and step.
PROPORTIONAL, INTEGRAL, REMEMBERED = 0.9, 0.1, 5
SET_POINT, STEP = 0.1, 10.0
FARTHEST = 50.0  # of an exponent
ONE_SURELY = 1 - 1e-6  # with room for rounding: what is compared with it is below 1,000
SURE = 1.01 * SET_POINT / PROPORTIONAL  # an error from which on an interval of 1 stays 1


class KalmanLevel:
    """The Kalman filter of a random-walk level."""

    STATE: ClassVar[tuple[str, ...]] = ("exact", "variance", "level")

    def __init__(self, threshold: int, movement: Fraction) -> None:
        self._step_variance = (float(movement) * threshold) ** 2
        self.exact = threshold / 2  # the posterior mean
        self.variance = threshold**2 / 12  # and variance: at first that of any value up to θ
        self.level = float(threshold // 2)

    def push(self, leaves: MeasuredLeaves) -> FloatArray:
        """The posterior mean after each leaf: predict over its time, update if measured."""
        numbers, spans, marks, filtered = leaves
        now = self._step_variance, self.exact, self.variance
        if filtered is not None and filtered.before == now:
            _, self.exact, self.variance = filtered.after
            levels: FloatArray = np.rint(np.append(math.nan, filtered.means))
            levels[0] = self.level
            self.level = float(levels[-1])
            followed: FloatArray = levels[np.cumsum(marks != 0)]
            return followed
        exact, variance = self.exact, self.variance
        means: list[float] = []
        scales = marks.astype(np.float64)
        noise = 2.0 * scales * scales
        noise[marks == 0] = math.inf  # a gain of 0
        for number, moved, noisy in zip(
            numbers.astype(np.float64).tolist(),
            (spans * self._step_variance).tolist(),
            noise.tolist(),
            strict=True,
        ):
            variance += moved
            gain = variance / (variance + noisy)
            exact += gain * (number - exact)
            variance *= 1.0 - gain
            means.append(exact)
        self.exact, self.variance = exact, variance
        found: FloatArray = np.rint(means)
        found[: int(np.argmax(marks != 0)) if marks.any() else marks.size] = self.level
        self.level = float(found[-1])
        return found


class KalmanFeedback:
    """The perturber's copy of the filter, with the controller's next interval.

    Both are functions of what was released: the perturber runs them to know which value to measure
    next.
    """

    STATE: ClassVar[tuple[str, ...]] = ("exact", "variance", "errors", "interval")

    def __init__(self, threshold: int, movement: Fraction) -> None:
        self._step_variance = (float(movement) * threshold) ** 2
        self.exact = threshold / 2
        self.variance = threshold**2 / 12
        self.errors: list[float] = []  # relative changes at the last measurements
        self.interval = 1.0

    @property
    def filter(self) -> tuple[float, float, float]:
        """The state of the filter: the variance of a step, the mean and its variance."""
        return self._step_variance, self.exact, self.variance

    def follow(self, number: int, span: int, mark: int) -> None:
        """Predict for `span` values; a measured number updates the level and the interval."""
        variance = self.variance + span * self._step_variance
        if not mark:
            self.variance = variance
            return
        gain = variance / (variance + 2.0 * mark * mark)
        before = self.exact
        self.exact = exact = before + gain * (number - before)
        self.variance = variance * (1 - gain)
        error = abs(exact - before) / (exact if exact > 1.0 else 1.0)
        kept = self.errors[1:] if len(self.errors) == REMEMBERED else self.errors.copy()
        kept.append(error)
        self.errors = kept
        self.interval = controlled_interval(self.interval, error, kept)


def controlled_interval(interval: float, error: float, errors: Collection[float]) -> float:
    """The interval that the controller sets after an error, the last of `errors`."""
    # e^x ≥ 1 + x + x²/2 for x ≥ 0: where even that leaves less than 1, the interval is 1, without
    # an exponential; nor does it need the integral part, which is never negative.
    power = (PROPORTIONAL * error - SET_POINT) / SET_POINT
    if power > 0 and interval - STEP * (power + power * power / 2) < ONE_SURELY:
        return 1.0
    signal = PROPORTIONAL * error + INTEGRAL * (math.fsum(errors) / len(errors))
    if signal >= SET_POINT and interval == 1.0:
        return 1.0
    power = (signal - SET_POINT) / SET_POINT
    if power > 0 and interval - STEP * (power + power * power / 2) < ONE_SURELY:
        return 1.0
    growth = 1 - one_exp(power if power < FARTHEST else FARTHEST)  # the same on every machine
    found = interval + STEP * growth
    return found if found > 1.0 else 1.0
