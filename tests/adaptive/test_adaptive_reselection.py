"""Choosing the threshold of an adaptive release again: its cost, who sees what, what it helps."""

from __future__ import annotations

from fractions import Fraction
from inspect import signature
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.durable.charging import charged_costs

SMALL = {"epsilon": 1, "bound": 5000, "holdout": 60, "horizon": 300}
SHAPES: dict[str, dict[str, Any]] = {
    "shared": {"rethreshold_every": 200, "rethreshold_share": "1/4"},
    "blocked": {"rethreshold_every": 200},
    "early": {"start_early": 10},
    "early, again": {"start_early": 10, "rethreshold_every": 150, "rethreshold_share": "1/2"},
}


def test_adaptive_takes_what_tops_takes() -> None:
    """But for the shape of the fixed tree, and what predicts inside its blocks."""
    tree = {"fanout", "skipped", "estimator"}
    mine, theirs = (signature(preset).parameters for preset in (tg.adaptive, tg.tops))
    assert theirs.keys() - mine.keys() == tree
    assert mine.keys() - theirs.keys() == {"nodes", "period", "catch_up"}


@pytest.mark.parametrize("name", SHAPES)
def test_the_whole_costs_epsilon(name: str) -> None:
    pipeline = tg.adaptive(**SMALL, **SHAPES[name])
    assert pipeline.guarantee == tg.Guarantee(epsilon=Fraction(1))
    shares = sorted({cost.guarantee.epsilon for _, cost in zip(range(6), charged_costs(pipeline))})  # noqa: B905  # endless
    assert max(shares) == 1
    window = tg.adaptive(**SMALL, **SHAPES[name], unit=tg.units.Window(length=2))
    assert window.guarantee.epsilon == 1


@pytest.mark.parametrize("name", SHAPES)
def test_thresholds_are_chosen_again_where_positions_say(name: str) -> None:
    pipeline = tg.adaptive(**SMALL, **SHAPES[name])
    starts = []
    for values in (np.zeros(1000), np.full(1000, 4000), np.arange(1000)):
        release = pipeline.start(tg.seeded(1))
        release.push(values)
        starts.append([phase.start for phase in release.phases])
    assert starts[0] == starts[1] == starts[2]
    assert len(starts[0]) >= 2


def test_blocked_values_reach_the_selection_only() -> None:
    """Whatever a blocked value is, what is published up to the switch is the same."""
    pipeline = tg.adaptive(**SMALL, rethreshold_every=200)
    values = np.random.default_rng(1).integers(0, 1000, 330)
    other = values.copy()
    other[60 + 140 : 60 + 200] = 5000  # the window before the first switch
    one, two = (pipeline.start(tg.seeded(3)).push(stream) for stream in (values, other))
    assert one[:200].tobytes() == two[:200].tobytes()
    assert one[200:].tobytes() != two[200:].tobytes()  # another threshold
    assert len(set(one[140:200].tolist())) == 1  # one forecast for the whole window


def test_blocked_stretches_are_part_of_the_answers() -> None:
    pipeline = tg.adaptive(**{**SMALL, "epsilon": 20}, rethreshold_every=200)
    release = pipeline.start(tg.seeded(3))
    release.push(np.full(660, 100))
    for start, end in ((0, 600), (150, 190), (100, 300), (199, 201)):
        answer = release.query(start, end)
        assert answer.low <= 100 * (end - start) <= answer.high
        assert answer.estimate == pytest.approx(100 * (end - start), rel=0.3)
    assert release.query(150, 190).prediction_error > release.query(50, 90).prediction_error


def test_a_stream_that_outgrows_its_threshold_is_helped() -> None:
    """Thirty times larger after a while: a threshold that stays would cut nearly all of it off."""
    values = np.random.default_rng(2).poisson(np.where(np.arange(9000) < 3000, 20, 600))
    errors = []
    for more in ({}, {"rethreshold_every": 2000, "rethreshold_share": "1/4"}):
        pipeline = tg.Pipeline(
            threshold=tg.threshold.ScaleFree(epsilon=1, bound=5000, holdout=500),
            perturber=tg.perturb.Hierarchy(epsilon=1, horizon=2000, fanout=4, skipped=2),
            estimator=tg.estimate.Mixture(),
            reselect=None
            if not more
            else tg.adaptive(1, 5000, holdout=500, horizon=2000, **more).reselect,
        )
        release = pipeline.start(tg.seeded(4))
        out = release.push(values)
        errors.append(abs(out[-2000:].sum() - values[-2000:].sum()))
    assert errors[1] < errors[0] / 5
