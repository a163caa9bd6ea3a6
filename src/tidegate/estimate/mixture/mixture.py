"""`Mixture`: settings of the adaptive estimator: small models, weighted by past predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate.errors import SettingError
from tidegate.estimate.estimator_defaults import EstimatorDefaults
from tidegate.estimate.mixture.catch_up import CatchUpShare
from tidegate.estimate.mixture.kalman_filter.harmonics import (
    LONGEST_PERIOD,
    MOST_PERIODS,
    Cycle,
    harmonics_of_periods,
)
from tidegate.estimate.mixture.kalman_filter.leaf_noise import MOST_LEVELS
from tidegate.estimate.mixture.kalman_filter.model_weights import check_packed_weights
from tidegate.estimate.mixture.mixture_run import MixtureRun
from tidegate.estimate.mixture.rescaled_run import RescaledRun
from tidegate.exact_numbers import Number, exact, said, whole
from tidegate.settings import Setting, Spec
from tidegate.stages import Perturber, Recorded, Saved

if TYPE_CHECKING:
    from tidegate.estimate.mixture.mixture_posterior import MixturePosterior


class Share(Setting[float, Number]):
    """A share of θ, kept as a float: it is post-processing, nothing private."""

    def check(self, value: Number) -> float:
        """Require a share of at least 0 and below 1."""
        number = exact(self.name, value)
        if not 0 <= number < 1:
            raise SettingError(self.name, f"must lie between 0 and 1, not {said(value)}")
        return float(number)


class MixturePeriods(Setting[tuple[int, ...] | None, int | Sequence[int] | None]):
    """None, or one or several periods in rows."""

    def check(self, value: int | Sequence[int] | None) -> tuple[int, ...] | None:
        """Require distinct whole numbers of at least 3 rows."""
        if value is None:
            return None
        several = value if isinstance(value, list | tuple) else (value,)
        periods = tuple(whole(self.name, period, 3) for period in several)
        if not 0 < len(periods) <= MOST_PERIODS:
            raise SettingError(self.name, f"must be 1 to {MOST_PERIODS} numbers of rows")
        if len(set(periods)) < len(periods):
            raise SettingError(self.name, "must name each period once")
        if max(periods) > LONGEST_PERIOD:
            raise SettingError(self.name, f"must be at most {LONGEST_PERIOD:,} rows")
        return periods


@dataclass(frozen=True, kw_only=True, repr=False)
class Mixture(EstimatorDefaults, Spec):
    """Publishes forecasts inside a cell, and at its end a value that corrects the running sum.

    Post-processing: it sees trees and released leaf sums, and costs no privacy. Every model is a
    Gaussian one (`state_space_models`) and is conditioned on each leaf sum as it is released;
    the likelihoods give the weights, the weighted mean is published. Before a block begins, the
    tree with the least expected log error under the weighted models is chosen.

    The running sum is not set to its own expectation: users ask for ranges, and an error that all
    running sums have in common cancels there. With e_t the error of the published running sum, the
    mean squared error over all ranges of n values is 2/n·Σ (1 − 1/t)·(e_t − mean of e_1 … e_{t−1})²
    and each term can be made as small as what is known at t allows, whatever was published before:
    its expectation is made 0. So every running sum is published as far above the mean of the
    published ones before it as the true one is expected to be above the mean of the true ones. (Its
    own expectation would take back old noise late: 1.3 to 1.5 times the error on calm streams.)
    "Before" is a horizon: older running sums fade.

    Args:
        truncated: what truncation takes from a value on average, by estimate, as a share of θ; it
            is added to every published value. `tidegate.adaptive` fills it in. Where values below
            0 are truncated too, the two shares are subtracted.
        period: a cycle to expect, in rows, or a list of them: the day, the week. Their harmonics
            are learnt from released sums (`cycle_filters`) beside models without a cycle, so a
            period that is not there costs little. None: no cycle.
        catch_up: the share of what the published running sum is off that the end of a cell sets
            right in blocks that are measured coarsely (`catch_up`): short ranges are more accurate
            and running sums a little less. None: all of it. `query` answers the same.
    """

    KIND: ClassVar[str] = "estimate.Mixture"

    truncated: Share = Share(default=0)
    period: MixturePeriods = MixturePeriods(default=None)
    catch_up: CatchUpShare = CatchUpShare(default=None)

    adds_up: ClassVar[bool] = False

    @property
    def allowance(self) -> float:
        """An addition to every value for truncation, as a share of θ."""
        return self.truncated

    @property
    def cycle(self) -> Cycle:
        """The harmonics of the periods."""
        return harmonics_of_periods(self.period or ())

    @property
    def caught_up(self) -> float:
        """The share of a correction that is published at once: 1 unless `catch_up` says less."""
        return float(self.catch_up or 1)

    def settings(self) -> dict[str, Any]:
        """The specification as plain data; some only where they are given: noise keys stay."""
        unused = {name for name in ("period", "catch_up") if getattr(self, name) is None}
        return {name: value for name, value in super().settings().items() if name not in unused}

    def check(self, perturber: Perturber) -> None:
        """Refuse trees of more than three levels: `leaf_noise_path` stores no more."""
        for layout in perturber.layouts(perturber.lengths(0)[0], 1, 1):
            if not layout.consistent:
                raise SettingError(
                    "consistent", "must be true for a forecaster to follow the trees"
                )
            if len(layout.nodes) > MOST_LEVELS:
                raise SettingError(
                    "levels",
                    f"must be at most {MOST_LEVELS} for a forecaster to follow the trees, not "
                    f"{len(layout.nodes)}: give levels={MOST_LEVELS}, or skip more",
                )

    def start(
        self, *, threshold: int, perturber: Perturber, saved: Saved | None = None, below: int = 0
    ) -> MixtureRun:
        """Begin with equal weights, or resume."""
        facts = threshold, self.truncated, perturber, saved, below
        return MixtureRun(*facts, cycle=self.cycle, catch_up=self.caught_up)

    def follow(
        self, *, threshold: int, perturber: Perturber, saved: Saved | None = None, below: int = 0
    ) -> RescaledRun:
        """Begin an estimator for a release whose threshold will change."""
        facts = threshold, self.truncated, perturber, saved, below
        return RescaledRun(*facts, cycle=self.cycle, catch_up=self.caught_up)

    def posterior(self, recorded: Recorded, until: int) -> MixturePosterior:
        """The models' posterior given all leaf sums."""
        from tidegate.estimate.mixture.mixture_posterior import MixturePosterior  # on demand: slow

        return MixturePosterior(recorded, until, self.truncated, cycle=self.cycle)

    def check_model_weights(self, model_weights: int) -> None:
        """Refuse weights of unknown models, and cycle weights if no period is set."""
        check_packed_weights(model_weights, cycles=self.period is not None)
