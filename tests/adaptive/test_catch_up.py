"""Published sums that catch up with what is known: in parts where budgets are small."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tidegate.errors import SettingError
from tidegate.estimate.mixture.catch_up import CALM_LEAVES, catch_up_share
from tidegate.estimate.mixture.mixture import Mixture
from tidegate.estimate.mixture.mixture_run import MixtureRun
from tidegate.perturb import AdaptiveTrees
from tidegate.stages import Layout, Noisy

THETA, HORIZON = 1000, 4096


def test_the_share_is_a_cube_root_in_steps() -> None:
    assert catch_up_share(Fraction(1), 8000) == Fraction(1, 2)
    assert catch_up_share(Fraction(1, 8), 8000) == Fraction(1, 4)
    assert catch_up_share(Fraction(1, 60), 7500) == Fraction(1, 8)
    assert catch_up_share(Fraction(1, 60), 7499) == Fraction(7, 64)
    assert catch_up_share(Fraction(1, 10**6), 60) == Fraction(1, 64)
    assert catch_up_share(Fraction(1), 63_999) == Fraction(63, 64)
    assert catch_up_share(Fraction(1), 64_000) is None


def test_windows_catch_up_by_their_budget_and_events_at_once() -> None:
    window = tg.units.Window(length=60)
    for holdout in (None, 100):
        made = tg.adaptive(60, 9, horizon=1000, unit=window, holdout=holdout)
        assert made.estimator.catch_up == Fraction(1, 4)
        at_once = tg.adaptive(60, 9, horizon=1000, unit=window, holdout=holdout, catch_up=1)
        assert at_once.estimator.caught_up == 1
        assert at_once.guarantee == made.guarantee
        event = tg.adaptive(1, 9, horizon=1000, holdout=holdout)
        assert event.estimator.catch_up is None
        assert "catch_up" not in event.settings()["estimator"]
        given = tg.adaptive(1, 9, horizon=1000, holdout=holdout, catch_up="1/3")
        assert given.estimator.catch_up == Fraction(1, 3)
        assert tg.Pipeline.from_settings(given.settings()) == given
    for wrong in (0, -1, 2):
        with pytest.raises(SettingError, match="catch_up: must be above 0"):
            tg.adaptive(1, 9, catch_up=wrong)


def _run(share: float) -> tuple[MixtureRun, tuple[Layout, ...]]:
    trees = AdaptiveTrees(epsilon=1, horizon=HORIZON)
    run = MixtureRun(THETA, 0.0, trees, catch_up=share)
    return run, trees.layouts(256, THETA, THETA)


def _tree(options: tuple[Layout, ...], nodes: tuple[int, ...]) -> Layout:
    return next(one for one in options if one.nodes == nodes and one.cap_step == 0)


def test_a_leaf_of_a_coarse_tree_by_hand() -> None:
    """Of a correction C a quarter is published with the leaf; then a quarter of what is left.

    What is left is measured from the mean of the past, which fades towards it: by w/(t + w) a cell.
    """
    (part, options), (whole, _) = _run(0.25), _run(1.0)
    tree = _tree(options, (1, 4))
    sums = np.array([64 * 300])  # of the first leaf; a value was expected to be 100
    for run in (part, whole):
        run.begin(tree)
    width = 16
    found, expected = np.zeros(7 * width), np.zeros(7 * width)
    part.push(Noisy(sums), found)
    whole.push(Noisy(sums), expected)
    calm = found.reshape(7, width).sum(axis=1)
    once = expected.reshape(7, width).sum(axis=1)
    assert calm[:3] == pytest.approx(once[:3], abs=1)  # cells before the end of the leaf
    assert found[: 4 * width - 1] == pytest.approx(expected[: 4 * width - 1])
    forecast = width * found[0]
    correction = once[3] - forecast
    assert correction > 10 * width
    assert calm[3] == pytest.approx(forecast + correction / 4, abs=1)
    owed = correction * 3 / 4
    for cell in range(4, 7):
        owed *= 1 - width / ((cell + 1) * width)
        assert calm[cell] == pytest.approx(width * found[cell * width] + owed / 4, abs=2)
        owed *= 3 / 4


def test_a_fine_tree_publishes_at_once() -> None:
    (part, options), (whole, _) = _run(0.25), _run(1.0)
    tree = _tree(options, (1, 16))
    assert tree.leaves > CALM_LEAVES
    found, expected = np.zeros(256), np.zeros(256)
    sums = np.random.default_rng(1).integers(0, 16 * THETA, 16)
    for run, out in ((part, found), (whole, expected)):
        run.begin(tree)
        run.push(Noisy(sums), out)
    assert found.tobytes() == expected.tobytes()


def test_forecasts_trees_and_weights_are_those_of_before() -> None:
    """Only what is owed of the running sum differs: the same leaves, the same models."""
    random = np.random.default_rng(2)
    (part, options), (whole, _) = _run(0.25), _run(1.0)
    for block in range(12):
        chosen = [run.choose(options, first=block == 0) for run in (part, whole)]
        assert chosen[0] == chosen[1]
        tree = options[chosen[0]]
        sums = Noisy(random.normal(256 * 200, 20_000, tree.leaves).astype(np.int64) // tree.leaves)
        cells = []
        for run in (part, whole):
            run.begin(tree)
            cells.append(run.push(sums, np.zeros(256)))
        assert cells[0].predictions.tobytes() == cells[1].predictions.tobytes()
        assert part.model_weights == whole.model_weights


def _errors(truth: np.ndarray, released: np.ndarray, length: int) -> float:
    error = np.concatenate(([0.0], np.cumsum(released - truth)))
    return float(np.mean(np.square(error[length:] - error[:-length])))


@pytest.mark.parametrize("holdout", [None, 2500])
def test_short_ranges_gain_and_long_ones_do_not_lose(
    holdout: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same noise, published in parts or at once (seen: 0.35 and 0.42 in short ranges)."""
    count, held = 20_000, holdout or 0
    values = np.random.default_rng(1).poisson(3, count + held)
    unit = tg.units.Window(length=60)
    pipeline = tg.adaptive(6, 50, horizon=count, holdout=holdout, unit=unit)
    out = [pipeline.start(tg.seeded(seed)).push(values) for seed in range(8)]
    monkeypatch.setattr(Mixture, "caught_up", 1.0)
    at_once = [pipeline.start(tg.seeded(seed)).push(values) for seed in range(8)]
    ratios = [
        [_errors(values[held:], one, n) / _errors(values[held:], other, n) for n in (50, 5000)]
        for one, other in zip(out, at_once, strict=True)
    ]
    short, long = np.median(ratios, axis=0)
    assert short < 0.5, ratios
    assert long < 1.05, ratios


def test_answers_do_not_depend_on_it() -> None:
    """The same record answers the same: what was published is no part of a posterior."""
    values = np.random.default_rng(3).poisson(4, 3000)
    pipeline = tg.adaptive(2, 40, horizon=2000, holdout=300, catch_up="1/4")
    release = pipeline.start(tg.seeded(1))
    released = release.push(values)
    answer = release.query(100, 1900)
    ends = np.array([answer.low, answer.high])
    assert ends[0] < values[400:2200].sum() < ends[1]
    # What is published and what is known differ by what is owed at both ends.
    assert released[100:1900].sum() != pytest.approx(answer.estimate, abs=1)
