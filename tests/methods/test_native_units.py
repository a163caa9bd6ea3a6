"""A perturber may protect any unit natively: the pipeline adds no group privacy to it."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import ClassVar

import numpy as np
import pytest

import tidegate as tg
from tidegate.durable.charging import charged_costs
from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee
from tidegate.perturb.hierarchy_and_flat import Flat
from tidegate.units import UserHorizon, Window


@dataclass(frozen=True, kw_only=True, repr=False)
class ForUsers(Flat):
    """Says that its noise is made for all values of a user at once (three of them)."""

    KIND: ClassVar[str] = "tests.ForUsers"

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(epsilon=self.epsilon, unit=UserHorizon(most=3).name)


def pipeline(**more):
    return tg.Pipeline(
        **{
            "threshold": tg.threshold.NoisyMax(epsilon="1/30", bound=20, holdout=10),
            "perturber": ForUsers(epsilon=1, horizon=50),
            "estimator": tg.estimate.Unsmoothed(),
            "unit": UserHorizon(most=3),
            **more,
        }
    )


def test_native_users():
    made = pipeline()
    assert made.native
    # The threshold by group privacy, three events of 1/30; the stream as it is; both together.
    assert made.guarantee.epsilon == Fraction(3, 30) + 1
    assert made.stream_guarantee.epsilon == 1
    (cost,) = islice(charged_costs(made), 2)
    assert (cost.start, cost.end, cost.guarantee) == (0, None, made.guarantee)
    release = made.start(tg.seeded(1))
    out = release.push(np.full(60, 5), users=["one"] * 60)  # and their values are still counted
    assert out.size == 50
    fork = release.fork(tg.seeded(2))
    assert not fork.guarantee.holds


def test_a_fork_of_a_native_stream_costs_its_budget_once_more():
    release = pipeline().start()
    release.push(np.full(30, 5), users=["one"] * 30)
    assert release.fork().guarantee.epsilon == Fraction(3, 30) + 1 + 1


@pytest.mark.parametrize("unit", [tg.units.Event(), Window(length=3), UserHorizon(most=4)])
def test_other_units_are_refused(unit):
    with pytest.raises(SettingError, match="unit: must be the one that the perturber protects"):
        pipeline(unit=unit)
