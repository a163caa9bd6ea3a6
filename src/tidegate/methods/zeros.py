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
        """0: nothing is spent."""
        return Fraction(0)

    @property
    def guarantee(self) -> Guarantee:
        """No cost."""
        return free()

    def scale(self, threshold: int) -> int:
        """0: there is no noise."""
        return 0

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """A text that names the stage: there is no noise."""
        return "NothingMeasured()"

    def sampler(self, threshold: int, keystream: Keystream) -> Never:
        """A sampler that never measures."""
        return Never()


class Never:
    """A sampler that never measures and has no state."""

    STATE: ClassVar[tuple[str, ...]] = ()

    def push(self, value: int, position: int) -> int:
        """0: the value is not measured."""
        return 0

    def find(self, values: list[int], start: int, stop: int, position: int) -> tuple[int, int]:
        """The end: no value is due."""
        return stop, 0

    def measured(self, number: int, span: int, scale: int) -> None:
        """Do nothing: no decision depends on it."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Zeros(LastPublished):
    """Publishes 0 for every value.

    Intervals reach as far as values can lie: about n·θ to both sides of a sum of n.
    """

    KIND: ClassVar[str] = "methods.Zeros"

    def level_filter(self, *, threshold: int, perturber: Perturber) -> Last:
        """A filter that starts at 0 and stays there."""
        return Last(0)

    def start(
        self, *, threshold: int, perturber: Perturber, saved: Saved | None = None, below: int = 0
    ) -> SampleAndHoldRun:
        """Begin at 0, wherever the lower bound lies."""
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
