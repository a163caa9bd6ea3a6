"""Turn the ε of a unit into the budget, the threshold and the rest of a pipeline."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from tidegate import estimate, threshold
from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, said, whole
from tidegate.guarantee import concentrated_epsilon
from tidegate.methods._preset import Common, Concentrated, PerEvent, PerWindow, assembled_preset
from tidegate.run.pipeline import Pipeline
from tidegate.run.threshold_schedule_and_reselection import share_of_reselection
from tidegate.settings import Delta, Epsilon, within
from tidegate.stages import Estimator, Perturber, Threshold
from tidegate.units import Unit, Window, checked_unit


def budget(
    epsilon: Number,
    unit: Unit | None,
    share: Number | None = None,
    start_early: int | None = None,
    every: int | None = None,
) -> tuple[Unit, Fraction, Fraction]:
    """The unit, the budget of one event, and the share of it for choosing the threshold again."""
    unit = checked_unit(unit)
    per_event = within("epsilon", epsilon, Epsilon) / unit.size
    return unit, per_event, share_of_reselection(share, start_early, every)


@dataclass(frozen=True, kw_only=True)
class BudgetSurroundings:
    """The parts of a pipeline other than its perturber and estimator."""

    threshold: Threshold
    horizon: int
    unit: Unit
    common: Common

    def pipeline(self, perturber: Perturber, estimator: Estimator | None = None) -> Pipeline:
        """The whole pipeline. Without an estimator, noisy values are published as they are."""
        return assembled_preset(
            self.threshold,
            perturber,
            estimate.Unsmoothed() if estimator is None else estimator,
            unit=self.unit,
            **self.common,
        )


@dataclass(frozen=True, kw_only=True)
class EventBudget(BudgetSurroundings):
    """The ε of one event."""

    epsilon: Fraction


@dataclass(frozen=True, kw_only=True)
class GaussianBudget(BudgetSurroundings):
    """The ρ of one event, and the δ for stating it as (ε, δ)."""

    rho: Fraction
    delta: Fraction


@dataclass(frozen=True, kw_only=True)
class WindowBudget(BudgetSurroundings):
    """The ε of all values of a window together, for the stream."""

    epsilon: Fraction
    window: int


def per_event(epsilon: Number, bound: Number, shared: PerEvent) -> EventBudget:
    """Give threshold and stream the whole budget of an event each: they read disjoint values."""
    unit, each, _ = budget(epsilon, shared["unit"])
    return EventBudget(
        epsilon=each,
        threshold=_truncation_budget(each, bound, shared["holdout"]),
        horizon=whole("horizon", shared["horizon"], minimum=1),
        unit=unit,
        common=_common_budget(shared),
    )


def per_event_gaussian(epsilon: Number, bound: Number, shared: Concentrated) -> GaussianBudget:
    """Find the largest ρ (to six digits) that implies (`epsilon`, `delta`)-DP for the unit.

    A unit of n events costs n²·ρ. The threshold is chosen with pure √(2ρ)-DP, which implies ρ-zCDP.
    """
    horizon = whole("horizon", shared["horizon"], minimum=1)
    unit, delta = checked_unit(shared["unit"]), shared["delta"]
    failure = Fraction(1, max(2, horizon) ** 2) if delta is None else within("delta", delta, Delta)
    rho = rho_of_budget(within("epsilon", epsilon, Epsilon), failure) / unit.size**2
    grain = 1 << 40
    pure = Fraction(math.isqrt(int(2 * rho * grain**2)), grain)
    return GaussianBudget(
        rho=rho,
        delta=failure,
        threshold=_truncation_budget(pure, bound, shared["holdout"]),
        horizon=horizon,
        unit=unit,
        common=_common_budget(shared),
    )


def per_window(epsilon: Number, bound: Number, shared: PerWindow) -> WindowBudget:
    """Give the threshold a quarter of ε: a window can span hold-out and stream.

    (By group privacy: for all events of the window.) Without a hold-out, the stream has all of it.
    """
    window = Window(length=60) if shared["unit"] is None else checked_unit(shared["unit"])
    if not isinstance(window, Window):
        raise SettingError("unit", "must be a window, such as tidegate.units.Window(length=60)")
    total = within("epsilon", epsilon, Epsilon)
    choice = total / 4 if shared["holdout"] else Fraction(0)
    return WindowBudget(
        epsilon=total - choice,
        window=window.length,
        threshold=_truncation_budget(choice / window.length, bound, shared["holdout"]),
        horizon=shared["horizon"],
        unit=window,
        common=_common_budget(shared),
    )


def _truncation_budget(epsilon: Fraction, bound: Number, holdout: int) -> Threshold:
    """The threshold for a method that was published without one.

    A hold-out chooses it; `holdout=0` is the method as published: θ is the bound, and no value is
    spent on it.
    """
    if whole("holdout", holdout, minimum=0) == 0:
        return threshold.Fixed(bound)
    return threshold.ScaleFree(epsilon=epsilon, bound=bound, holdout=holdout)


def _common_budget(shared: Common) -> Common:
    return {
        "resolution": shared["resolution"],
        "non_negative": shared["non_negative"],
        "history": shared["history"],
        "lower": shared["lower"],
    }


@lru_cache(maxsize=64)
def rho_of_budget(epsilon: Fraction, delta: Fraction) -> Fraction:
    """A ρ, close to the largest, such that ρ-zCDP implies (ε, δ)-DP.

    Rounded down to six digits, so that it is a short number and the same on every machine.

    >>> rho = rho_of_budget(Fraction(1), Fraction(1, 10**6))
    >>> float(rho), concentrated_epsilon(rho, Fraction(1, 10**6)) <= 1
    (0.0243..., True)
    """
    low, high = 0.0, float(epsilon)  # ρ < ε, since ε(ρ, δ) ≥ ρ
    for _ in range(60):
        middle = (low + high) / 2
        fits = concentrated_epsilon(Fraction(middle), delta) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    if not low:
        raise SettingError("epsilon", f"is too small for delta = {said(delta)}: no ρ implies it")
    size = Fraction(10) ** (math.floor(math.log10(low)) - 5)
    rho = (Fraction(low) // size) * size
    while concentrated_epsilon(rho, delta) > epsilon:
        rho -= size
    return rho
