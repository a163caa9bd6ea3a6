"""What the plan predicts is what happens, and its list of trees is in order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.plan import best_hierarchy, expect, half_width

THETA = 50
TREES: dict[str, Any] = {
    "H16c": tg.perturb.Hierarchy(epsilon=1, horizon=500, skipped=0),
    "blocks": tg.perturb.Hierarchy(epsilon=1, horizon=500, fanout=4, skipped=1),
    "H2": tg.perturb.Hierarchy(
        epsilon=1, horizon=500, fanout=2, skipped=0, levels=9, consistent=False
    ),
    "flat": tg.perturb.Flat(epsilon=1, horizon=500),
}


def pipeline(name: str, **more: Any) -> tg.Pipeline:
    return tg.Pipeline(threshold=tg.threshold.Fixed(THETA), perturber=TREES[name], **more)


@pytest.mark.parametrize("name", TREES)
def test_the_noise_error_is_what_releases_show(name: str) -> None:
    """Root mean square over 400 horizons and every aligned start: within a few per cent."""
    block = TREES[name].block
    lengths = [block, 20 * block, 300]
    predicted = expect(pipeline(name), lengths)
    errors: dict[int, list[float]] = {length: [] for length in lengths}
    starts = [np.arange(0, 500 - length + 1, block) for length in lengths]
    ends = [
        (start + length) // block * block for start, length in zip(starts, lengths, strict=True)
    ]
    edges = np.cumsum([start.size for start in starts])[:-1]
    horizons = np.arange(0, 4000, 500)[:, None]  # each has noise of its own
    first, last = (horizons + np.concatenate(one) for one in (starts, ends))
    for seed in range(50):
        release = pipeline(name).start(tg.seeded(seed))
        release.push(np.zeros(4000, dtype=np.int64))
        found = release.queries(first.ravel(), last.ravel()).estimate.reshape(first.shape)
        for length, part in zip(lengths, np.split(found, edges, axis=1), strict=True):
            errors[length].append(float(np.mean(part**2)))
    for item in predicted:
        empirical = math.sqrt(np.mean(errors[item.length]))
        assert item.threshold == THETA
        assert item.noise_error == pytest.approx(empirical, rel=0.06)
        assert item.standard_error == math.hypot(item.noise_error, item.prediction_error)


def test_the_prediction_error_by_hand() -> None:
    """Blocks of 4, roughness 1/2, θ = 50: each cut is off by 25 per value.

    A range of 4 values starting at offset o cuts o values at its start and o at its end (none for
    o = 0): 25²·(0 + 2·1 + 2·4 + 2·9)/4 = 25²·7, when starts are spread evenly.
    """
    (item,) = expect(pipeline("blocks"), [4], roughness="1/2")
    assert item.prediction_error == pytest.approx(25 * math.sqrt(7), rel=0.01)
    (calm,) = expect(pipeline("blocks"), [4], roughness="1/4")
    assert calm.prediction_error == pytest.approx(item.prediction_error / 2)
    (exact,) = expect(pipeline("H16c"), [4])
    assert exact.prediction_error == 0


def test_predictions_follow_the_unit_and_the_threshold() -> None:
    common = {"epsilon": 1, "bound": 100, "horizon": 500, "holdout": 10, "skipped": 0}
    (whole,) = expect(tg.tops(**common), [100])
    (half,) = expect(tg.tops(**common), [100], threshold=50)
    (fine,) = expect(tg.tops(**common, resolution="1/10"), [100])
    assert whole.threshold == 100
    assert half.threshold == 50
    assert half.noise_error == pytest.approx(whole.noise_error / 2, rel=0.001)
    assert fine.noise_error == pytest.approx(whole.noise_error, rel=0.001)


def test_ranges_beyond_the_horizon_are_sums_over_several() -> None:
    (one, ten) = expect(pipeline("H16c"), [500, 5000])
    assert ten.noise_error == pytest.approx(one.noise_error * math.sqrt(10), rel=0.15)


def test_the_best_tree_comes_first() -> None:
    choices = best_hierarchy(epsilon=0.1, horizon=5000, fanouts=[2, 4, 16])
    errors = [choice.error for choice in choices]
    assert errors == sorted(errors)
    assert all(error > 0 for error in errors)
    found = {(choice.hierarchy.fanout, choice.hierarchy.block) for choice in choices}
    assert len(found) == len(choices)
    assert {fanout for fanout, _ in found} == {2, 4, 16}
    assert (16, 1) in found
    assert str(choices[0]).startswith(f"fanout {choices[0].hierarchy.fanout}, ")


def test_a_choice_is_judged_like_expect_judges_it() -> None:
    choice = best_hierarchy(epsilon=0.1, horizon=5000, lengths=[700], fanouts=[4])[0]
    pipe = tg.Pipeline(threshold=tg.threshold.Fixed(10_000), perturber=choice.hierarchy)
    (item,) = expect(pipe, [700])
    assert choice.error == pytest.approx(item.standard_error / 10_000)


def test_the_workload_decides() -> None:
    """Short ranges want no blocks; long ones of a rough stream with little budget do."""
    short = best_hierarchy(epsilon=1, horizon=4096, lengths=[1], fanouts=[16])[0]
    long = best_hierarchy(epsilon="0.01", horizon=4096, lengths=[3000], fanouts=[16])[0]
    assert short.hierarchy.block < long.hierarchy.block


def test_weights_count() -> None:
    def error(lengths: Any) -> float:
        return (
            best_hierarchy(epsilon=1, horizon=1000, lengths=lengths, fanouts=[1000])[0].error ** 2
        )

    short, long = error([10]), error([900])
    assert error([10, 900]) == pytest.approx((short + long) / 2)
    assert error({10: 1, 900: 1}) == pytest.approx((short + long) / 2)
    assert error({10: 3, 900: 1}) == pytest.approx((3 * short + long) / 4)
    assert error({10: 0.75, 900: 0.25}) == pytest.approx((3 * short + long) / 4)


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"horizon": 0}, "horizon"),
        ({"horizon": 10.5}, "horizon"),
        ({"lengths": []}, "lengths"),
        ({"lengths": {}}, "lengths"),
        ({"lengths": {5: 0}}, "lengths"),
        ({"lengths": {5: -1}}, "lengths"),
        ({"lengths": {5: float("nan")}}, "lengths"),
        ({"lengths": [0]}, "length"),
        ({"lengths": [1.5]}, "length"),
        ({"roughness": "rough"}, "roughness"),
        ({"fanouts": [1]}, "fanout"),
        ({"fanouts": [0]}, "fanout"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], setting: str) -> None:
    with pytest.raises(tg.SettingError, match=setting):
        best_hierarchy(**{"epsilon": 1, "horizon": 100, **arguments})


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        ({"lengths": [0]}, "length"),
        ({"lengths": [-3]}, "length"),
        ({"threshold": "high"}, "threshold"),
        ({"roughness": float("inf")}, "roughness"),
    ],
)
def test_expect_names_bad_arguments(arguments: dict[str, Any], setting: str) -> None:
    with pytest.raises(tg.SettingError, match=setting):
        expect(pipeline("H16c"), **{"lengths": [5], **arguments})


@pytest.mark.parametrize("roughness", ["0.01", "0.3", "3"])
def test_a_plan_for_a_guided_release_is_honest(roughness: str) -> None:
    """Streams that wander as assumed have the errors that were planned, and intervals as wide."""
    horizon, theta = 4096, 200
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(theta),
        perturber=tg.perturb.AdaptiveTrees(epsilon="1/2", horizon=horizon),
        estimator=tg.estimate.Mixture(),
    )
    lengths = [200, 2000]
    planned = expect(pipeline, lengths, threshold=theta, roughness=roughness)
    errors: dict[int, list[float]] = {length: [] for length in lengths}
    said: dict[int, list[float]] = {length: [] for length in lengths}
    for seed in range(8):
        random = np.random.default_rng(seed)
        steps = random.normal(0, float(roughness) * theta / horizon**0.5, horizon)
        level = np.abs(theta / 8 + np.cumsum(steps)) % theta  # stays within [0, θ]
        values = np.clip(random.normal(level, theta / 10), 0, theta * 0.9)
        release = pipeline.start(tg.seeded(seed))
        release.push(values)
        truth = np.concatenate(([0.0], np.cumsum(np.rint(values))))
        for length in lengths:
            starts = np.arange(0, horizon - length, 37)
            found = release.queries(starts, starts + length)
            miss = found.estimate - truth[starts + length] + truth[starts]
            errors[length].append(float(np.mean(miss**2)))
            said[length].append(float(np.mean(found.standard_error**2)))
    for item in planned:
        empirical = math.sqrt(np.mean(errors[item.length]))
        shown = math.sqrt(np.mean(said[item.length]))
        assert empirical == pytest.approx(item.standard_error, rel=0.3)
        assert shown == pytest.approx(item.standard_error, rel=0.2)


def test_a_plan_knows_what_truncation_will_leave_unknown() -> None:
    """The same part of the interval as in answers, for the same threshold and a calm stream."""
    pipeline = tg.adaptive(1, 10_000, horizon=4096, holdout=1024, resolution="0.001")
    planned, shown = [], []
    for seed in range(3):
        release = pipeline.start(tg.seeded(seed))
        release.push(np.rint(np.random.default_rng(seed).gamma(1.0, 30, 5120)))
        (item,) = expect(pipeline, [1500], threshold=release.threshold, roughness="0.01")
        answer = release.query(2000, 3500)
        assert item.truncation_error == pytest.approx(answer.truncation_error, rel=0.15)
        planned.append(half_width(pipeline, item))
        shown.append((answer.high - answer.low) / 2)
    assert planned == pytest.approx(shown, rel=0.15)
    capped = expect(tg.tops(1, 10_000, horizon=4096, holdout=1024), [1500], threshold=100)
    assert capped[0].excess is None
    assert capped[0].truncation_error == 0
