"""The five smoothers against naive code and against numbers worked out by hand."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tests.depth import examples
from tidegate.stages import Noisy

BLOCK, THETA = 4, 10
U0 = BLOCK * THETA / 2  # 20: what is known before anything was released


def recent(known: list[float]) -> float:
    return known[-1] / BLOCK


def mean(known: list[float]) -> float:
    return sum(known) / len(known) / BLOCK


def median(known: list[float]) -> float:
    return statistics.median(known) / BLOCK


def moving(window: int) -> Callable[[list[float]], float]:
    return lambda known: sum(known[-window:]) / len(known[-window:]) / BLOCK


def exponential(alpha: float) -> Callable[[list[float]], float]:
    def predict(known: list[float]) -> float:
        prediction = known[0] / BLOCK
        for level in known[1:]:
            prediction = alpha * level / BLOCK + (1 - alpha) * prediction
        return prediction

    return predict


NAIVE = {
    "Recent": (tg.estimate.Recent(), recent),
    "Mean": (tg.estimate.Mean(), mean),
    "Median": (tg.estimate.Median(), median),
    "MovingAverage 1": (tg.estimate.MovingAverage(window=1), moving(1)),
    "MovingAverage 3": (tg.estimate.MovingAverage(window=3), moving(3)),
    "MovingAverage 8": (tg.estimate.MovingAverage(), moving(8)),
    "Exponential 1/2": (tg.estimate.Exponential(), exponential(0.5)),
    "Exponential 1/10": (tg.estimate.Exponential(alpha="1/10"), exponential(0.1)),
    "Unsmoothed": (tg.estimate.Unsmoothed(), lambda known: 0.0),
}


def start(stage: Any, blocks: int = 1000) -> Any:
    return stage.predictor(threshold=THETA, block=BLOCK, blocks=blocks)


# u_1, u_2, u_3 = 8, 40, −4 after u_0 = 20; a prediction for one value each time, u_0 first.
BY_HAND = {
    "Recent": [5, 2, 10, -1],
    "Mean": [5, 3.5, 68 / 12, 4],  # 20/4; 28/2/4; 68/3/4; 64/4/4
    "Median": [5, 3.5, 5, 3.5],  # 20; (8+20)/2; 20 of 8,20,40; (8+20)/2 of −4,8,20,40
    "MovingAverage 1": [5, 2, 10, -1],
    "MovingAverage 3": [5, 3.5, 68 / 12, 44 / 12],  # the last: 8 + 40 − 4
    "MovingAverage 8": [5, 3.5, 68 / 12, 4],
    "Exponential 1/2": [5, 3.5, 6.75, 2.875],  # 1+2.5; 5+1.75; −0.5+3.375
    "Exponential 1/10": [5, 4.7, 5.23, 4.607],  # 0.2+4.5; 1+4.23; −0.1+4.707
    "Unsmoothed": [0, 0, 0, 0],
}


@pytest.mark.parametrize("name", NAIVE)
def test_by_hand(name: str) -> None:
    run = start(NAIVE[name][0])
    found = [run.first, *run.push(Noisy(np.array([8, 40, -4])))]
    np.testing.assert_allclose(found, BY_HAND[name], rtol=1e-12)


@pytest.mark.parametrize("name", NAIVE)
def test_against_naive_code(name: str) -> None:
    stage, naive = NAIVE[name]

    @settings(max_examples=examples(30))
    @given(st.lists(st.integers(-1000, 1000), max_size=60))
    def check(sums: list[int]) -> None:
        run = start(stage)
        found = run.push(Noisy(np.array(sums, dtype=np.int64)))
        expected = [naive([U0, *sums[: index + 1]]) for index in range(len(sums))]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)

    check()


def test_the_first_prediction_is_half_the_threshold() -> None:
    for name, (stage, _) in NAIVE.items():
        assert start(stage).first == (0 if name == "Unsmoothed" else THETA / 2)


def test_median_forgets_with_each_horizon() -> None:
    """Five blocks a horizon; the old median takes the place of u_0."""
    sums = np.random.default_rng(0).integers(-100, 100, size=23)
    found = start(tg.estimate.Median(), blocks=5).push(Noisy(sums))
    stand_in, expected = U0, []
    for horizon in range(0, 23, 5):
        known = [stand_in]
        for level in sums[horizon : horizon + 5].tolist():
            known.append(level)
            expected.append(statistics.median(known) / BLOCK)
        stand_in = statistics.median(known)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("name", NAIVE)
def test_a_block_ends_with_what_is_missing_to_its_sum(name: str) -> None:
    """Inside: the prediction from earlier blocks. Last: the noisy sum minus what was published."""
    stage, naive = NAIVE[name]
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(THETA),
        perturber=tg.perturb.Flat(epsilon=1, block=BLOCK, horizon=1000),
        estimator=stage,
    )
    values = np.random.default_rng(2).integers(0, 12, size=30 * BLOCK + 3)
    release = pipeline.start(tg.seeded(1))
    out = release.push(values)
    ends = np.arange(1, 31) * BLOCK
    noisy = release.queries(ends - BLOCK, ends).estimate
    for block in range(31):
        prediction = naive([U0, *noisy[:block]])
        inside = out[block * BLOCK : (block + 1) * BLOCK]
        np.testing.assert_allclose(inside[: BLOCK - 1], prediction, rtol=1e-9, atol=1e-9)
        if block < 30:
            assert inside[-1] == pytest.approx(noisy[block] - (BLOCK - 1) * prediction)
            assert inside.sum() == pytest.approx(noisy[block])
    assert out.size == values.size  # the last, unfinished block is predictions only
