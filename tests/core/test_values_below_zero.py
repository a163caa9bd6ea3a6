"""`lower`: values below 0 count, both ends follow the stream, and everything knows of both."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.depth import depth, in_turn
from tests.laws.catalogue import bits, facts, known
from tidegate.durable import DurableRelease, transfer
from tidegate.errors import SettingError
from tidegate.lattice import Lattice, default_resolution
from tidegate.released import ReleasedFile

NAN, INF = float("nan"), float("inf")
WHOLE = Lattice(Fraction(100), Fraction(1), Fraction(-20))
CENTS = Lattice(Fraction(30), Fraction(1, 100), Fraction("-4.5"))


def seasons(count: int, seed: int = 1) -> np.ndarray:
    """Temperatures that begin in summer: two thirds above 0, a third below."""
    random, phase = np.random.default_rng(seed), np.linspace(0, 2 * np.pi, count)
    return 6 + 18 * np.cos(phase) + random.normal(0.0, 2.0, count)


# -- input policy ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([-1, 101, -21, -20, 0], [-1, 100, -20, -20, 0]),
        ([NAN, None, -INF, INF], [0, 0, -20, 100]),
        ([-0.5, -1.5, -0.49, -19.6, -0.0], [0, -2, 0, -20, 0]),  # half to even
        ([-(2**70), -(10**400), 2**70], [-20, -20, 100]),
        ([Decimal("-7.4"), Fraction(-15, 2), Decimal("NaN"), True], [-7, -8, 0, 1]),
        (np.array([-128, 127], dtype=np.int8), [-20, 100]),
        (np.array([2**64 - 1], dtype=np.uint64), [100]),
    ],
)
def test_numbers_are_clamped_at_both_ends(values: Any, expected: list[int]) -> None:
    assert WHOLE.units(WHOLE.numbers(values)).tolist() == expected
    assert [WHOLE.unit(value) for value in values] == expected


@given(st.floats(), st.sampled_from([WHOLE, CENTS]))
def test_one_value_is_rounded_as_in_an_array(value: float, lattice: Lattice) -> None:
    (found,) = lattice.units(lattice.numbers([value])).tolist()
    assert lattice.unit(value) == found
    assert -lattice.bottom <= found <= lattice.top


def test_a_lower_bound_is_rounded_outwards() -> None:
    assert Lattice(Fraction(3), Fraction(1), Fraction("-2.5")).bottom == 3
    assert (CENTS.bottom, CENTS.scale.top) == (450, 3000)
    assert Lattice(Fraction(3), Fraction(1), Fraction(-5)).scale.top == 5


@pytest.mark.parametrize("lower", [1, "0.1", NAN, "x", "-1e19", None, True, [0]])
def test_a_lower_bound_is_zero_or_below(lower: Any) -> None:
    with pytest.raises(SettingError, match=r"^lower: "):
        tg.adaptive(epsilon=1, bound=50, lower=lower)


def test_no_stream_is_made_non_negative_where_values_below_zero_count() -> None:
    with pytest.raises(SettingError, match=r"^non_negative: "):
        tg.tops(epsilon=1, bound=50, lower=-1, non_negative=True)


def test_without_it_nothing_changes() -> None:
    """The settings, and so the keys of all noise, are those from before there was a `lower`."""
    plain = tg.adaptive(epsilon=1, bound=50, horizon=400)
    assert "lower" not in plain.settings()
    assert tg.adaptive(epsilon=1, bound=50, horizon=400, lower=0) == plain
    signed = tg.adaptive(epsilon=1, bound=50, horizon=400, lower=-3)
    assert tg.Pipeline.from_settings(signed.settings()) == signed
    assert signed.resolution == plain.resolution
    values = np.random.default_rng(0).integers(-5, 40, size=400)
    release = plain.start(tg.seeded(1))
    out = release.push(values)
    assert bits(out) == bits(plain.start(tg.seeded(1)).push(np.maximum(values, 0)))
    assert release.floor == 0.0
    assert "floor" not in release.phases[0].plain()


def test_the_resolution_suits_the_larger_of_both_bounds() -> None:
    pipeline = tg.adaptive(epsilon=1, bound=1, lower=-(10**7))
    assert pipeline.threshold_step == default_resolution(Fraction(10**7))


# -- accuracy -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(depth(2, 3)))
def test_temperatures_are_right_though_the_first_values_were_warm(seed: int) -> None:
    """The floor follows the winter; without `lower` the total is twice the truth."""
    values = seasons(12_000, seed)
    release = tg.adaptive(epsilon=2, bound=50, lower=-50, horizon=12_000).start(tg.seeded(seed))
    release.push(values)
    answer = release.query(0, 12_000)
    assert abs(answer.estimate - values.sum()) < 0.06 * np.abs(values).sum()
    assert release.floor is not None
    assert release.floor < -12
    assert seed or release.phases[0].floor > -12  # it was not so from the beginning
    assert "capped to [" in str(answer)
    blind = tg.adaptive(epsilon=2, bound=50, horizon=12_000).start(tg.seeded(seed))
    blind.push(values)
    assert blind.query(0, 12_000).estimate > 1.5 * values.sum()


def test_a_stream_without_negatives_is_hardly_worse_off() -> None:
    values = np.random.default_rng(3).exponential(5.0, size=8000)
    release = tg.adaptive(epsilon=1, bound=1000, lower=-1000, horizon=8000).start(tg.seeded(3))
    release.push(values)
    assert -0.4 < release.floor / release.threshold < -0.1  # type: ignore[operator]
    answer = release.query(0, 8000)
    assert abs(answer.estimate - values.sum()) < 0.03 * values.sum()


@pytest.mark.parametrize("method", ["adaptive", "tops"])
def test_a_stream_below_zero_mirrors_one_above(method: str) -> None:
    values = -np.random.default_rng(5).exponential(5.0, size=20_000)
    more = {} if method == "adaptive" else {"holdout": 4000}
    pipeline = getattr(tg, method)(epsilon=1, bound=1000, lower=-1000, horizon=20_000, **more)
    release = pipeline.start(tg.seeded(4))
    release.push(values)
    truth = values[20_000 - release.position :].sum()
    answer = release.query(0, release.position)
    assert abs(answer.estimate - truth) < 0.04 * abs(truth)
    assert not answer.crowded_below


def test_answers_say_when_values_lie_at_the_lower_end() -> None:
    flat = tg.perturb.Flat(epsilon=5, block=10, horizon=200)
    pipeline = tg.Pipeline(threshold=tg.threshold.Fixed(40), perturber=flat, lower=-10)
    release = pipeline.start(tg.seeded(1))
    release.push(np.concatenate((np.full(100, 12.0), np.full(100, -300.0))))
    cold, warm = release.query(100, 200), release.query(0, 100)
    assert cold.crowded_below
    assert "the true sum is smaller" in str(cold)
    assert not warm.crowded_below
    assert str(warm).startswith("sum of capped values over [0, 100): ")
    assert str(warm).endswith("values were capped to [-10, 40]")
    answers = release.queries([0, 100, 50], [100, 200, 50])
    assert (answers.floor, answers.lowest_floor, answers.threshold) == (-10.0, -10.0, 40.0)
    assert answers[2].floor == -10.0


# -- state, journal and files ----------------------------------------------------------------------


@pytest.mark.parametrize("moment", in_turn([1, 150, 700, 1500, 2600], 0))
def test_a_resumed_release_goes_on_alike_at_both_ends(moment: int) -> None:
    """In the first warm-up, in a window, after the floor was left, in the warm-up after that."""
    values = seasons(3000)
    pipeline = tg.adaptive(epsilon=3, bound=50, lower=-50, horizon=3000)
    whole = pipeline.start(tg.seeded(2))
    expected = whole.push(values)
    assert len(whole.phases) > 2
    parts = pipeline.start(tg.seeded(2))
    first = parts.push(values[:moment])
    again = pipeline.resume(parts.snapshot())
    rest = again.push(values[moment:])
    assert bits(np.concatenate((first, rest))) == bits(expected)
    assert facts(again) == facts(whole)


def test_a_fork_keeps_both_ends() -> None:
    values = seasons(3000)
    release = tg.adaptive(epsilon=3, bound=50, lower=-50, horizon=3000).start(tg.seeded(2))
    release.push(values[:1000])
    branch = release.fork(tg.seeded(9))
    assert (branch.threshold, branch.floor) == (release.threshold, release.floor)
    out = branch.push(values[1000:1400])
    assert abs(out.sum() - values[1000:1400].sum()) < 0.5 * np.abs(values[1000:1400]).sum()


@pytest.mark.parametrize("method", ["adaptive", "tops", "fast"])
def test_the_journal_and_the_file_know_the_floor(method: str, tmp_path: Path) -> None:
    """Killed and opened again: rows are those that would have come, and answers the same."""
    more = {"holdout": 300} if method == "tops" else {}
    pipeline = getattr(tg, method)(epsilon=3, bound=50, lower=-50, horizon=3000, **more)
    values = seasons(3000)
    out = tmp_path / "private.csv"
    with DurableRelease.open(tmp_path / "state", pipeline) as run:
        transfer(values[:1700], run, out)
    with DurableRelease.open(tmp_path / "state", pipeline) as run:
        transfer(values, run, out)
        replayed = np.concatenate([part for _, part in run.replay()])
        phases, total = run.phases, run.query(0, run.position)
        assert all(phase.floor < 0 for phase in phases)
        file = ReleasedFile.open(out)
        assert file.thresholds == phases
        asked = file.record.query(0, run.position)
        assert (asked.estimate, asked.floor) == (total.estimate, total.floor)
        assert asked.standard_error == pytest.approx(total.standard_error)
    rows = np.loadtxt(out, delimiter=",", skiprows=1)
    np.testing.assert_array_equal(rows[:, 1], replayed)
    stored = tg.load_record(pipeline_record(pipeline, values))
    assert stored.segments[0].below > 0


def pipeline_record(pipeline: tg.Pipeline, values: np.ndarray) -> bytes:
    release = pipeline.start(tg.seeded(1))
    release.push(values)
    loaded = tg.load_record(release.save_record())
    asked, told = loaded.query(0, release.position), release.query(0, release.position)
    assert (asked.estimate, asked.low, asked.floor) == (told.estimate, told.low, told.floor)
    assert known(release)[2] == release.threshold
    return release.save_record()


def test_users_beyond_their_limit_count_as_zero_not_as_the_lower_bound() -> None:
    unit = tg.units.UserHorizon(most=1)
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(10),
        perturber=tg.perturb.Flat(epsilon=1000, block=4, horizon=8),
        unit=unit,
        lower=-10,
    )
    out = pipeline.start(tg.seeded(1)).push([-7, -7, -7, -7], users=["a", "a", "a", "a"])
    assert abs(out.sum() + 7) < 1


@pytest.mark.parametrize("bound", ["1e-5", "0.001", "0.01", "0.5", "1"])
@pytest.mark.parametrize("lower", [-200, -10_000])
def test_a_bound_that_is_small_beside_lower_has_a_resolution_of_its_own(bound, lower) -> None:
    pipeline = tg.adaptive(1, bound, lower=lower, horizon=1000)
    assert pipeline.lattice.top * pipeline.resolution == Fraction(bound)
    assert pipeline.lattice.bottom * pipeline.resolution == -lower


def test_ends_that_no_sum_can_hold_are_refused_by_the_settings_that_were_given() -> None:
    with pytest.raises(tg.SettingError, match=r"bound|lower"):
        tg.adaptive(1, "1e-12", lower=-1_000_000)
