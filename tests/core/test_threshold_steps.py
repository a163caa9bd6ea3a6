"""Values are rounded more finely than thresholds are apart: choices do not know."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.lattice import Lattice
from tidegate.threshold import NoisyMax, ScaleFree, TailQuantile
from tidegate.threshold.bulk_of_values import sees_bulk
from tidegate.threshold.least_threshold import least_threshold, lifted_threshold

GRAIN = 1000
SIZES = np.random.default_rng(1).gamma(1.5, 60, 400).astype(np.int64)  # whole grains
EVENTS: dict[str, Any] = {"every": "1h", "start": "2024-01-01T00:00Z", "horizon": 64}


def lattices(bound: int) -> tuple[Lattice, Lattice]:
    """Of steps between thresholds, and of the finer ones between values."""
    fine = Lattice(Fraction(bound), Fraction(1, GRAIN), grain=GRAIN)
    return Lattice(Fraction(bound), Fraction(1)), fine


@pytest.mark.parametrize("bound", [1000, 50_000])
@pytest.mark.parametrize("epsilon", ["1/20", "1"])
@pytest.mark.parametrize("rule", [TailQuantile, ScaleFree, NoisyMax])
def test_scores_of_whole_steps_are_the_same(rule: Any, epsilon: str, bound: int) -> None:
    coarse, fine = lattices(bound)
    stage = rule(epsilon=epsilon, bound=bound, holdout=SIZES.size)
    mine, theirs = SIZES * GRAIN, SIZES
    if rule is TailQuantile:
        mine, theirs = stage.above(mine, fine), stage.above(theirs, coarse)
    found, expected = stage.scores(mine, fine), stage.scores(theirs, coarse)
    assert found[0].tolist() == (expected[0] * GRAIN).tolist()
    assert found[1].tolist() == expected[1].tolist()
    assert found[2] == expected[2]


@pytest.mark.parametrize("first", [False, True])
def test_public_facts_count_in_steps_of_thresholds(first: bool) -> None:
    """What a choice knows beforehand: where it starts, how far it climbs, its least θ."""
    coarse, fine = lattices(50_000)
    stage = TailQuantile(epsilon="1/20", bound=50_000, holdout=SIZES.size, stream_epsilon="1/20")
    assert sees_bulk(stage, fine) == sees_bulk(stage, coarse)
    assert least_threshold(stage, fine) == 1  # any: it looks for the bulk
    blind = replace(stage, epsilon="1/100")
    assert least_threshold(blind, coarse) > 1
    assert least_threshold(blind, fine) == GRAIN * least_threshold(blind, coarse)
    known = replace(stage, epsilon=1)
    assert lifted_threshold(known, coarse, 25) > 1
    assert lifted_threshold(known, fine, 25) == GRAIN * lifted_threshold(known, coarse, 25)
    assert lifted_threshold(stage, fine, 1) == lifted_threshold(stage, coarse, 1) == 1
    facts = {"positive": 200, "climbing_from": 7, "climbing_to": 80, "at_least": 5}
    scaled = {**facts, **{name: GRAIN * facts[name] for name in facts if name != "positive"}}
    expected = stage.scores(stage.above(SIZES, coarse), coarse, **facts, first=first)
    found = stage.scores(stage.above(SIZES * GRAIN, fine), fine, **scaled, first=first)
    assert found[0].tolist() == (expected[0] * GRAIN).tolist()
    assert found[1].tolist() == expected[1].tolist()
    outcomes = [stage.outcome(step, coarse) for step in expected[0].tolist()]
    assert outcomes != expected[0].tolist()  # extrapolated
    found_outcomes = [stage.outcome(step, fine) for step in found[0].tolist()]
    assert found_outcomes == [GRAIN * step for step in outcomes]


def test_the_last_threshold_is_the_bound() -> None:
    """A bound that is no multiple of the step: nothing above it, and θ reaches it."""
    lattice = Lattice(Fraction(7, 2), Fraction(1, GRAIN), grain=GRAIN)
    assert (lattice.top, lattice.grains) == (3500, 4)
    for stage in (
        TailQuantile(epsilon=1, bound="3.5", holdout=60),
        ScaleFree(epsilon=1, bound="3.5", holdout=60),
        NoisyMax(epsilon=1, bound="3.5", holdout=60),
    ):
        assert stage.candidates(lattice).tolist() == [1000, 2000, 3000, 3500]


def test_the_law_of_thresholds_does_not_know_the_resolution() -> None:
    """Releases with the default and with steps as they were: the same θ up to a step, by chance."""
    values = np.rint(np.random.default_rng(2).gamma(2.0, 20, 300))
    fine = tg.adaptive(1, 5000, horizon=300)
    coarse = replace(fine, resolution=fine.threshold_step, threshold_step=None)
    assert coarse.lattice.grains == fine.lattice.grains
    found = []
    for pipeline in (fine, coarse):
        counts: Counter[int] = Counter()
        for seed in range(300):
            release = pipeline.start(tg.seeded(seed))
            release.push(values[: pipeline.warm_up])
            counts[int(np.log(release.threshold or 1) * 2)] += 1
        found.append(counts)
    # Total variation of two samples of 300 from one law of 10 classes is 0.08; the wrong price
    # for a step (that of a lattice a million times as fine) moves nearly all.
    assert sum(abs(found[0][at] - found[1][at]) for at in found[0] | found[1]) / 600 < 0.2


@pytest.mark.parametrize(
    ("value", "bound"), [(1 / 180, 1), (1 / 2700, 1), (0.25, 10**6), (0.012345, 50)]
)
def test_rounding_does_not_show(value: float, bound: float) -> None:
    """A constant of 1/180 of the bound was 2 % off with a narrow interval; a quarter, 0."""
    count = 5000
    for pipeline in (
        tg.adaptive(1, bound, horizon=count),
        tg.adaptive(3, bound, horizon=count),
        tg.adaptive(1, bound, horizon=count, holdout=50),
        tg.adaptive(1, bound, horizon=count, lower=-bound),
        tg.tops(1, bound, horizon=count, holdout=50),
        tg.events(1, bound, **EVENTS),
    ):
        lattice = pipeline.lattice
        assert lattice.unit(value) * lattice.step == pytest.approx(value, rel=1e-3)
        assert lattice.unit(7) * lattice.resolution == min(7, bound)  # whole numbers stay whole
    release = tg.adaptive(3, bound, horizon=count).start(tg.seeded(1))
    release.push(np.full(count, value))
    answer = release.query(0, count)
    assert answer.low <= count * value <= answer.high


def test_sums_of_a_whole_horizon_fit_64_bits() -> None:
    """Values at the bound, through the finest default: exact but for noise."""
    for bound, epsilon in ((10**6, 3), (30, 1), (10**9, 3)):
        pipeline = tg.adaptive(epsilon, bound, horizon=20_000)
        pipeline.measurer.check(pipeline.widest)
        release = pipeline.start(tg.seeded(2))
        release.push(np.full(20_000, bound))
        assert release.query(0, 20_000).estimate == pytest.approx(20_000 * bound, rel=0.02)
        assert (release.record.segments[-1].released > 0).any()


@pytest.mark.parametrize("grain", [1, 10, 1000])
@pytest.mark.parametrize("horizon", [1024, 2**16])
def test_no_choice_goes_below_a_cap_that_was_full(grain: int, horizon: int) -> None:
    """Caps are no whole steps: by rounding down, θ came out up to a step below a full one."""
    stage = TailQuantile(epsilon="1/2", bound=1000, holdout=51, horizon=horizon, stream_epsilon=1)
    lattice = Lattice(Fraction(1000), Fraction(1, grain), grain=grain)
    above = stage.above(np.zeros(51, dtype=np.int64), lattice)
    for floor in [*range(1, 40 * grain, max(1, grain // 10)), lattice.top - 1, lattice.top]:
        found = stage.scores(above, lattice, floor)[0].tolist()
        assert min(stage.outcome(step, lattice) for step in found) >= floor
        below = stage.candidates(lattice)[: -len(found)].tolist()  # and no more is left out
        whole = -(-floor // grain) * grain
        assert all(stage.outcome(step, lattice) < whole for step in below)


def test_a_step_is_a_multiple_of_the_resolution() -> None:
    pipeline = tg.adaptive(1, 50, horizon=100)
    assert (pipeline.threshold_step, pipeline.lattice.grain) == (Fraction(1, 100), 10**6)
    assert tg.Pipeline.from_settings(pipeline.settings()) == pipeline
    with pytest.raises(tg.SettingError, match="threshold_step: must be a multiple"):
        replace(pipeline, resolution="0.003")
    assert replace(pipeline, resolution="0.001").lattice.grain == 10
    for coarse in ("0.01", 1):  # thresholds are multiples of it, as of any resolution
        assert replace(pipeline, resolution=coarse).threshold_step is None
    assert "threshold_step" not in tg.adaptive(1, 50, horizon=100, resolution=1).settings()
