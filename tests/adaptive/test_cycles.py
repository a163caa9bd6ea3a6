"""Cycles of a public period: the fast algebra against the slow, and what a period changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.adaptive.paths import dense, least_squares_covariance
from tidegate.estimate.mixture.kalman_filter.block_cells import BlockCells
from tidegate.estimate.mixture.kalman_filter.cycle_filters import (
    RARER,
    CycleFilters,
    prior_variances_of_cycle,
)
from tidegate.estimate.mixture.kalman_filter.harmonics import Cycle, Harmonics, harmonics_of_periods
from tidegate.estimate.mixture.kalman_filter.kalman_filters import KalmanFilters
from tidegate.estimate.mixture.kalman_filter.leaf_noise import leaf_noise_path
from tidegate.estimate.mixture.kalman_filter.model_weights import (
    cycle_weights,
    packed_weights,
    unpacked_weights,
)
from tidegate.estimate.mixture.kalman_filter.state_space_models import SUM, StateTransition, models
from tidegate.estimate.mixture.smoother.block_batches import MeasuredBlock
from tidegate.estimate.mixture.smoother.model_and_cycle_smoothers import (
    CycleResponses,
    ModelSmoother,
)
from tidegate.perturb.adaptive.adaptive_trees import AdaptiveTrees

HORIZON, THETA, PERIODS = 4096, 50, (70, 401)


def test_harmonics_are_those_of_the_textbook() -> None:
    harmonics, positions = (
        Harmonics(harmonics_of_periods((9, 86_400))),
        np.array([0, 1, 5, 86_399, 10**12 + 7]),
    )
    turns = np.array([(period, h) for period in (9, 86_400) for h in (1, 2, 3, 4)])
    angles = 2 * np.pi * turns[:, 1] * (positions[:, None] % turns[:, 0]) / turns[:, 0]
    pairs = np.stack((np.cos(angles), np.sin(angles)), axis=-1).reshape(positions.size, -1)
    np.testing.assert_allclose(harmonics.at(positions), pairs, atol=2e-15)
    each = harmonics.at(np.arange(3, 50_003)).sum(axis=0)
    between = harmonics.before(50_003) - harmonics.before(3)
    np.testing.assert_allclose(between, each, atol=1e-9 * 86_400)
    assert Harmonics(harmonics_of_periods((3, 5))).order.tolist() == [
        1,
        1,
        1,
        1,
        2,
        2,
    ]  # no faster than rows


def test_a_day_that_differs_by_the_day_of_the_week_is_within_reach() -> None:
    """Products of the first harmonics of both are combinations of what is learnt together."""
    hours = np.arange(5 * 168)
    day, week = 2 * np.pi * hours / 24, 2 * np.pi * hours / 168
    for modulated in (False, True):
        basis = Harmonics(harmonics_of_periods((24, 168), modulated=modulated)).at(hours)
        for number in (1, 2):
            product = np.sin(number * day + 0.3) * np.cos(week + 0.7)
            left = product - basis @ np.linalg.lstsq(basis, product, rcond=None)[0]
            assert (np.abs(left).max() < 1e-9) == modulated
    assert (
        harmonics_of_periods((168, 24), modulated=True)[8:]
        == harmonics_of_periods((24, 168), modulated=True)[8:]
    )
    for apart in ((24,), (24, 167), (3, 1 << 40)):  # nothing to modulate
        assert harmonics_of_periods(apart, modulated=True) == harmonics_of_periods(apart)


def test_weekends_are_forecast_by_days_that_change_with_the_week() -> None:
    """Sums of four hours without noise: the ninth week, forecast from those before."""
    width, one, leaf = 4, models(9 * 168).only(1), leaf_noise_path((1,), (1e-6,))[0]
    hours = np.arange(9 * 168)
    rate = 0.1 + 0.08 * np.sin(2 * np.pi * hours / 24) * np.where(hours // 24 % 7 >= 5, -0.5, 1.0)
    errors = []
    for modulated in (False, True):
        filters = KalmanFilters(one)
        cycle = CycleFilters(harmonics_of_periods((24, 168), modulated=modulated), 1)
        cycle._weights = [(1, 1.0)]
        over, missed = StateTransition(one, width), []
        for total in rate.reshape(-1, width).sum(axis=1).tolist():
            cycle.begin_cell(width)
            missed.append(total - filters.forecast(over, [(0, 1.0)]) - cycle.forecast(over))
            for each in (filters, cycle):
                each.open_leaf(leaf)
            filters.predict(over)
            cycle.predict(over, width)
            filters.update(leaf, total)
            cycle.update(leaf, filters)
        errors.append(float(np.square(missed[-42:]).mean()))
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize(
    "learnt", [harmonics_of_periods(PERIODS), harmonics_of_periods((20, 140), modulated=True)]
)
@pytest.mark.parametrize("model", [0, 5, 8])
def test_a_cycle_is_learnt_by_gaussian_conditioning(model: int, learnt: Cycle) -> None:
    """Coefficients as random variables of one dense Gaussian: the same sums and variances."""
    stage = AdaptiveTrees(epsilon="1/2", horizon=HORIZON)
    random, one = np.random.default_rng(model), models(HORIZON).only(model)
    trees = [
        next(tree for tree in stage.layouts(length, THETA, THETA) if tree.nodes == shape)
        for length, shape in ((60, (2,)), (33, (1, 8)), (130, (1, 8, 64)))
    ]
    cells = [BlockCells(tree, THETA) for tree in trees]
    lengths = [width for each in cells for width in each.widths]
    sums = [random.integers(0, 3 * tree.length, size=tree.leaves) for tree in trees]
    harmonics = Harmonics(learnt)
    edges = np.concatenate(([0], np.cumsum(lengths)))
    shape = np.diff(harmonics.before(edges), axis=0)
    prior = prior_variances_of_cycle(harmonics)[1]
    mean, covariance = dense(one, lengths, 0.0)
    covariance = covariance + (shape * prior) @ shape.T
    total, design, at, row = np.zeros((74, 74)), np.zeros((74, len(lengths))), 0, 0
    for each in cells:
        leaves = each.tree.leaves
        for cell in range(each.count):
            design[row + cell // each.per_leaf, at + cell] = 1.0
        variances = [variance / THETA**2 for variance in each.tree.variances]
        here = slice(row, row + leaves)
        total[here, here] = least_squares_covariance(each.tree.nodes, variances)
        at, row = at + each.count, row + leaves
    total += design @ covariance @ design.T
    observed = np.concatenate(sums) / THETA
    gain = covariance @ design.T @ np.linalg.inv(total)
    missed = observed - design @ mean
    posterior, left = mean + gain @ missed, covariance - gain @ design @ covariance

    filters, cycle = KalmanFilters(one), CycleFilters(learnt, 1)
    above, age, at = np.zeros(len(lengths)), 0, 0
    for each, noisy in zip(cells, sums, strict=True):
        for cell in range(each.count):
            opened, closed, width = each.opens[cell], each.closes[cell], each.widths[cell]
            if opened is not None:
                filters.open_leaf(opened)
                cycle.open_leaf(opened)
            over, part = StateTransition(one, width), width / (age + width)
            filters.fade(part)
            cycle.fade(part)
            above *= 1 - part
            cycle.begin_cell(width)
            filters.predict(over)
            cycle.predict(over, width)
            above[at], at, age = 1.0, at + 1, age + width
            if closed is not None:
                filters.update(closed, noisy.item(cell // each.per_leaf) / THETA)
                cycle.update(closed, filters)
    cycle._weights = [(1, 1.0)]  # the second amplitude alone
    expected = filters.mean[SUM, 0] + cycle.expected_sum()
    assert expected == pytest.approx(above @ posterior, rel=3e-3)
    # The likelihood too, so that weights are right: the second amplitude's, over no cycle's.
    halvings = cycle.halvings()[1] - RARER + np.log2(cycle.determinant[1]) / 2
    _, determinant = np.linalg.slogdet(total)
    distance = missed @ np.linalg.solve(total, missed)
    assert halvings == pytest.approx((distance + determinant) / 2 / np.log(2), rel=3e-3)

    starts = np.cumsum([0, *(tree.length for tree in trees)]).tolist()
    measured = [
        MeasuredBlock(start, each, noisy, start + each.tree.length)
        for start, each, noisy in zip(starts, cells, sums, strict=False)
    ]
    back = CycleResponses(measured, harmonics, ModelSmoother(measured, HORIZON, model)).smoother(
        prior
    )
    prefix = np.concatenate(([0.0], np.cumsum(posterior)))
    np.testing.assert_allclose(back.sums, prefix, rtol=5e-3, atol=0.03)
    first, last = np.sort(random.integers(0, prefix.size, size=(2, 60)), axis=0)
    exact = [left[i:j, i:j].sum() for i, j in zip(first.tolist(), last.tolist(), strict=True)]
    found = back.variances(first, last)
    given_cycle = back._left.variances(first, last)
    rescaled = found - given_cycle + given_cycle / back._left.misfit(first, last)
    np.testing.assert_allclose(rescaled, exact, rtol=0.02, atol=2e-3)
    assert (found > 1.05 * given_cycle).any()  # what is not known of the cycle matters here


def test_the_weights_of_a_cycle_are_packed_beside_those_of_models() -> None:
    number = packed_weights([(0, 0.4), (3, 0.6)], [0.2, 0.6])
    assert unpacked_weights(number) == [(0, 0.4), (3, 0.6)]
    assert cycle_weights(number)[:2] == [0.2, 0.6]
    assert packed_weights([(0, 1.0)], [0.0, 0.0]) == packed_weights([(0, 1.0)])
    tg.estimate.Mixture(period=7).check_model_weights(number)
    with pytest.raises(ValueError, match="no period"):
        tg.estimate.Mixture().check_model_weights(number)


@pytest.mark.parametrize(
    ("period", "message"),
    [
        (2, "at least 3"),
        ((), "1 to 3"),
        ([5, 6, 7, 8], "1 to 3"),
        ([5, 5], "each period once"),
        (2**41, "at most"),
        ("day", "number of rows"),
        (86400.5, "whole number"),
    ],
)
def test_periods_are_numbers_of_rows(period: Any, message: str) -> None:
    with pytest.raises(tg.SettingError, match=f"period: .*{message}"):
        tg.adaptive(1, 10, period=period)


def test_without_a_period_nothing_has_changed() -> None:
    plain = tg.adaptive("1/10", 500, horizon=2500)
    assert "period" not in plain.estimator.settings()
    assert tg.adaptive("1/10", 500, horizon=2500, period=None) == plain
    daily = tg.adaptive("1/10", 500, horizon=2500, period=[600])
    assert daily.guarantee == plain.guarantee
    assert daily == tg.adaptive("1/10", 500, horizon=2500, period=600)
    assert daily.estimator.settings()["period"] == [600]


def cyclic(count: int, period: int, seed: int, strength: float = 0.8) -> np.ndarray:
    random = np.random.default_rng(seed)
    course = 1 + strength * np.sin(2 * np.pi * np.arange(count) / period)
    return random.poisson(30 * course * random.gamma(1.0, size=count))


def error(values: np.ndarray, period: int | None, seed: int, *, past: bool = False) -> float:
    pipeline = tg.adaptive("1/5", 1000, horizon=60_000, holdout=4096, period=period)
    release = pipeline.start(tg.seeded(seed))
    out, truth = release.push(values), np.cumsum(values[4096:])
    if not past:
        return 2 * float((np.cumsum(out) - truth).var())
    ends = np.arange(100, truth.size, 487)
    answers = release.queries(np.zeros_like(ends), ends)
    return 2 * float((answers.estimate - truth[ends - 1]).var())


def test_a_cycle_is_learnt_and_a_wrong_period_does_no_harm() -> None:
    """Two to four times less error on a cycle; a hundredth more or less without one."""
    daily, level = cyclic(64_096, 6000, 1), cyclic(64_096, 6000, 2, strength=0.0)
    gains, losses = [], []
    for seed in range(2):
        gains.append(np.log(error(daily, None, seed) / error(daily, 6000, seed)))
        losses.append(np.log(error(level, None, seed) / error(level, 6000, seed)))
    assert np.mean(gains) > np.log(1.5)
    assert np.mean(losses) > np.log(0.6)  # other noise in each run: see benchmarks for the paired


def test_the_past_knows_the_cycle_too() -> None:
    daily = cyclic(64_096, 6000, 3)
    gains = [
        np.log(error(daily, None, seed, past=True) / error(daily, 6000, seed, past=True))
        for seed in range(2)
    ]
    assert np.mean(gains) > np.log(1.3)


def test_periods_of_time_in_rows_and_ticks() -> None:
    hourly = tg.events(epsilon=1, every="1h", start="2024-02-01", horizon=960, period=["1d", 5])
    assert hourly.estimator.settings()["period"] == [24, 5]
    for period, message in (("90min", "'90min' is not a whole number"), ("1mo", "lengths of time")):
        with pytest.raises(tg.SettingError, match=f"period: .*{message}"):
            tg.events(epsilon=1, every="1h", start="2024-02-01", period=period)


def test_events_learn_days_that_change_with_the_week() -> None:
    """By default where a horizon has some weeks; records that do not say so are read as before."""
    common: dict[str, Any] = {"epsilon": 1, "every": "1h", "start": "2024-02-01"}
    found = tg.events(**common, horizon=960).estimator
    assert found.settings()["modulated"] is True  # and so noise is keyed by it
    assert len(found.cycle) == 12  # type: ignore[attr-defined]
    for other in ({"horizon": 400}, {"horizon": 960, "period": "1d"}, {"horizon": 60}):
        assert "modulated" not in tg.events(**common, **other).estimator.settings()
    earlier = {name: part for name, part in found.settings().items() if name != "modulated"}
    assert (
        tg.estimate.Mixture(period=earlier["period"]).cycle
        == replace(
            found,
            modulated=False,  # type: ignore[type-var]
        ).cycle
    )


def test_events_learn_their_cycle() -> None:
    """The same events with and without a period: less error with it, in what is published."""
    day, ticks = 400, 16_000
    random = np.random.default_rng(1)
    counts = random.poisson(4 * (1 + 0.9 * np.sin(2 * np.pi * np.arange(ticks) / day)))
    start = np.datetime64("2024-02-01T00:00:00", "s")
    times = np.repeat(start + np.arange(ticks), counts)
    gains = []
    for seed in range(2):
        errors = []
        for period in (None, day):
            pipeline = tg.events(
                epsilon="1/5", every="1s", start="2024-02-01", horizon=ticks, period=period
            )
            release = pipeline.start(tg.seeded(seed))
            release.push(times)
            out = release.advance(start + ticks).values
            errors.append(float(np.var(np.cumsum(out - counts))))
        gains.append(np.log(errors[0] / errors[1]))
    assert np.mean(gains) > 0


def test_a_refined_release_with_a_period_is_chunk_invariant_and_resumes() -> None:
    """Warm-ups, other thresholds and caps that were full: the cycle goes with the filters."""
    pipeline = tg.adaptive(8, 5000, horizon=500, period=30)
    values = cyclic(900, 30, 4) * np.repeat([1, 1, 40], 300)
    whole = pipeline.start(tg.seeded(2))
    expected = whole.push(values)
    assert len(whole.phases) > 2
    parts, release = [], pipeline.start(tg.seeded(2))
    for piece in np.split(values, [1, 40, 41, 333, 334, 650]):
        parts.append(release.push(piece))
        release = pipeline.resume(release.snapshot())
    assert np.concatenate(parts).tobytes() == expected.tobytes()
    assert release.query(100, 850) == whole.query(100, 850)
