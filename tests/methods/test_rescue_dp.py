"""RescueDP: no window spends more than ε, whatever is released; the noise is that of its parts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tidegate.estimate.sample_and_hold import MeasuredLeaves
from tidegate.methods import _rescue_dp_sampler_one_by_one as method
from tidegate.methods._kalman_and_controller import KalmanLevel
from tidegate.methods._rescue_dp_sampler_in_bulk import RescueDPInBulk
from tidegate.methods.rescue_dp import ControlledBudget
from tidegate.state_as_bytes import state_of
from tidegate.units import Window

STAGE = ControlledBudget(epsilon=2, window=10)


def worst_window(stage: ControlledBudget, numbers: np.ndarray) -> Fraction:
    """The most that any window spends, if these are the numbers that are released."""
    theta, spent = 100, np.zeros(numbers.size, dtype=object)
    sampler = RescueDPInBulk(stage, theta)
    span = 0
    for position, number in enumerate(numbers.tolist()):
        scale = sampler.push(0, position)
        span += 1
        if scale:
            spent[position] = Fraction(theta, scale)
            sampler.measured(number, span, scale)
            span = 0
    assert np.count_nonzero(spent) > numbers.size // 20
    sums = np.concatenate(([0], np.cumsum(spent)))
    return max(sums[stage.window :] - sums[: -stage.window])


@pytest.mark.parametrize("course", ["wild", "calm", "steps"])
def test_no_window_spends_more_than_epsilon(course: str) -> None:
    random = np.random.default_rng(3)
    numbers = {
        "wild": random.integers(-(10**6), 10**6, size=600),
        "calm": np.full(600, 50),
        "steps": np.repeat(random.integers(0, 100, size=30), 20),
    }[course]
    worst = worst_window(STAGE, numbers)
    assert worst <= 2  # fractions: no tolerance
    assert worst > Fraction(1, 2)


def test_what_a_long_window_spends_does_not_come_back_early() -> None:
    """Measured at every value, 40 of them spend nearly all: after 28 it would be too much."""
    numbers = np.random.default_rng(3).integers(-(10**6), 10**6, size=600)
    assert Fraction(9, 5) < worst_window(ControlledBudget(epsilon=2, window=40), numbers) <= 2


def test_a_budget_that_is_not_kept_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: 30 % more is spent than is counted."""
    right = ControlledBudget.scale
    monkeypatch.setattr(
        ControlledBudget,
        "scale",
        lambda self, threshold, parts=1 << 12: right(self, threshold, parts * 13 // 10),
    )
    monkeypatch.setattr(method, "MOST", method.PARTS)
    for name in ("_MOST_SHARE", "ROUGH_MOST", "_SHARE", "ROUGH_SHARE"):
        monkeypatch.setattr(method, name, 1)
    assert worst_window(STAGE, np.full(600, 50)) > 2


def test_the_first_budget_by_hand() -> None:
    """interval 1: 0.2·ln 2 = 0.1386 of ε; θ = 100, ε = 2: scale ⌈100/(2·0.1386)⌉."""
    sampler = RescueDPInBulk(STAGE, 100)
    assert sampler.push(7, 0) == 361  # 100/0.27726 = 360.67
    sampler.measured(50, 1, 361)
    assert sampler.due >= 1


def test_noise_has_the_scale_of_its_marks() -> None:
    """What is measured of zeros is noise: its mean size over its scale is 1, and 30 % is seen."""
    pipeline = tg.rescue_dp(epsilon=5, bound=1000, unit=Window(length=20), horizon=1024)
    run = pipeline.perturber.start(1000, 1000, tg.seeded(5).new_epoch().keystream("perturb", b""))
    run.begin(0)
    noisy = [run.push(np.zeros(1024, dtype=np.int64)) for _ in range(1)]
    while sum(np.count_nonzero(one.marks) for one in noisy) < 3000:
        run.begin(0)
        noisy.append(run.push(np.zeros(1024, dtype=np.int64)))
    sums = np.concatenate([one.sums[one.marks > 0] for one in noisy])
    marks = np.concatenate([one.marks[one.marks > 0] for one in noisy])
    size = float(np.mean(np.abs(sums) / marks))
    spread = 1 / sums.size**0.5
    assert abs(size - 1) < 4 * spread
    assert abs(size / 0.7 - 1) > 4 * spread


@pytest.mark.parametrize("size", [1, 90, 5000])
def test_the_filter_of_the_perturber_spares_that_of_the_estimator(size: int) -> None:
    """The same levels and state with and without it; of another state it is not used."""
    random = np.random.default_rng(8)
    values = np.where(random.random(20_000) < 0.02, 1000, 15)
    stage = tg.rescue_dp(epsilon=20, bound=1000, horizon=1500).perturber
    run = stage.start(1000, 1000, tg.seeded(5).new_epoch().keystream("perturb", b""))
    told, alone, other = (KalmanLevel(1000, stage.movement) for _ in range(3))
    other.exact += 1
    used = 0
    for start in range(0, 60 * size if size < 5000 else values.size, size):
        noisy = run.push(values[start : start + size])
        if not noisy.sums.size:
            continue
        numbers = noisy.sums, noisy.spans, noisy.marks
        used += noisy.filtered is not None and noisy.filtered.before[1:] == (
            told.exact,
            told.variance,
        )
        found = told.push(MeasuredLeaves(*numbers, noisy.filtered))
        assert found.tolist() == alone.push(MeasuredLeaves(*numbers)).tolist()
        assert state_of(told) == state_of(alone)
        assert other.push(MeasuredLeaves(*numbers, noisy.filtered)).size == found.size
        assert other.variance == alone.variance
        assert other.exact != alone.exact or start > 3000  # forgets where it began, slowly
    assert used > 3


def test_a_slow_stream_is_followed() -> None:
    values = (500 + 100 * np.sin(np.arange(4000) / 400)).astype(int)
    release = tg.rescue_dp(epsilon=20, bound=1000, unit=Window(length=20)).start(tg.seeded(1))
    assert np.abs(release.push(values) - values)[500:].mean() < 100
