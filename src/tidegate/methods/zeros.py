"""Zeros: what publishing nothing of the data costs; a method that is worse should not be used."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Unpack

from tidegate import threshold as thresholds
from tidegate.estimate.sample_and_hold import Last, LastPublished, SampleAndHoldRun
from tidegate.exact_numbers import Number, positive
from tidegate.guarantee import Guarantee, free
from tidegate.methods._preset import HORIZON, Common, assembled_preset, preset
from tidegate.methods._registration import Method
from tidegate.perturb.sampled_values import SampledStage
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Spec, Whole
from tidegate.stages import Perturber, Saved


@dataclass(frozen=True, kw_only=True, repr=False)
class NothingMeasured(SampledStage, Spec):
    """Measures no value.

    **Privacy**: ε = 0. Released: that nothing was measured, whatever the values are.

    Args:
        horizon: queries look back on 16 of these.
    """

    KIND: ClassVar[str] = "methods.NothingMeasured"

    horizon: Whole = Whole(minimum=1, default=HORIZON)

    @property
    def epsilon(self) -> Fraction:
        """Nothing is spent."""
        return Fraction(0)

    @property
    def guarantee(self) -> Guarantee:
        """Free."""
        return free()

    def scale(self, threshold: int) -> int:
        """There is no noise."""
        return 0

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """There is no noise."""
        return "NothingMeasured()"

    def sampler(self, threshold: int, keystream: Keystream) -> Never:
        """Decides nothing."""
        return Never()


class Never:
    """Measures nothing; there is nothing to remember."""

    STATE: ClassVar[tuple[str, ...]] = ()

    def push(self, value: int, position: int) -> int:
        """Not measured."""
        return 0

    def find(self, values: list[int], start: int, stop: int, position: int) -> tuple[int, int]:
        """None of them."""
        return stop, 0

    def measured(self, number: int, span: int, scale: int) -> None:
        """Nothing depends on it."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Zeros(LastPublished):
    """Every value is published as 0.

    Intervals reach as far as values can lie: about n·θ to both sides of a sum of n.
    """

    KIND: ClassVar[str] = "methods.Zeros"

    def level_filter(self, *, threshold: int, perturber: Perturber) -> Last:
        """Begin with nothing, and stay there."""
        return Last(0)

    def start(
        self, *, threshold: int, perturber: Perturber, saved: Saved | None = None, below: int = 0
    ) -> SampleAndHoldRun:
        """0, wherever the lowest value lies."""
        return SampleAndHoldRun(Last(below), saved and saved.state, below)


@preset
def zeros(
    epsilon: Number, bound: Number, *, horizon: int = HORIZON, **common: Unpack[Common]
) -> Pipeline:
    """Publishes 0 for every value, and spends nothing: the baseline.

    Base; ε = 0. What must be beaten: where noise is larger than the sums themselves, nothing is
    better than this. Its intervals reach as far as values can lie.

    When: comparison only.
    Reference: folklore; Base in Wang et al., CCS 2021.

    Args:
        epsilon: as of every method; nothing of it is spent.
        horizon: queries look back on 16 of these.

    >>> print(zeros(epsilon=1, bound=50).guarantee)
    ε = 0 per event (exact arithmetic, central model)
    """
    positive("epsilon", epsilon)
    return assembled_preset(
        threshold=thresholds.Fixed(bound),
        perturber=NothingMeasured(horizon=horizon),
        estimator=Zeros(),
        **common,
    )


METHOD = Method(zeros, stages=(NothingMeasured, Zeros))
