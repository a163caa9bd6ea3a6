"""Units of privacy larger than an event: the arithmetic of groups, and the cap per user."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tests.depth import examples
from tidegate.errors import InputError, SettingError
from tidegate.guarantee import Guarantee, grouped
from tidegate.run.user_cap import UserCap
from tidegate.units import Event, UserHorizon, Window

budgets = st.fractions(Fraction(1, 1000), 5, max_denominator=1000)


def tops(unit, **settings):
    base = {"epsilon": 1, "bound": 100, "holdout": 20, "horizon": 64, "fanout": 4, "skipped": 0}
    return tg.tops(**{**base, **settings}, unit=unit)


# -- group privacy ---------------------------------------------------------------------------------


@given(epsilon=budgets, size=st.integers(1, 100))
def test_epsilon_is_for_the_unit_and_noise_for_its_events(epsilon, size):
    for unit in (Window(length=size), UserHorizon(most=size)):
        pipeline = tops(unit, epsilon=epsilon, horizon=2**19)
        assert pipeline.guarantee.epsilon == epsilon
        assert pipeline.perturber.epsilon == epsilon / size
        assert pipeline.threshold.epsilon == epsilon / size


@given(epsilon=budgets, size=st.integers(1, 60), delta=st.floats(1e-12, 1e-6))
def test_delta_of_a_group_is_the_sum_over_its_steps(epsilon, size, delta):
    """Replacing one event after the other: δ·Σ e^(i·ε), i < size."""
    found = grouped(Guarantee(epsilon=epsilon, delta=delta), size, "unit")
    steps = sum(math.exp(i * float(epsilon)) for i in range(size)) * delta
    assert found.epsilon == size * epsilon
    assert float(found.delta) == pytest.approx(min(1.0, steps), rel=1e-9)
    assert found.unit == "unit"


def test_a_group_of_one_costs_what_an_event_costs():
    event = Guarantee(epsilon=Fraction(1, 3), delta=Fraction(1, 10**9))
    assert grouped(event, 1, "event") == event


def test_delta_is_never_more_than_one():
    assert grouped(Guarantee(epsilon=Fraction(5), delta=0.01), 100, "unit").delta == 1
    # Caught: beyond every float it was an OverflowError.
    assert grouped(Guarantee(epsilon=Fraction(1), delta=0.01), 10**6, "unit").delta == 1
    assert grouped(Guarantee(epsilon=Fraction(0), delta=0.25), 3, "unit").delta == 0.75


@given(st.integers(1, 40), st.integers(1, 40))
def test_larger_groups_are_promised_less(one, more):
    event = Guarantee(epsilon=Fraction(1, 10), delta=Fraction(1, 10**8))
    small, large = grouped(event, one, "u"), grouped(event, one + more, "u")
    assert small.epsilon < large.epsilon
    assert small.delta < large.delta


def test_the_guarantee_says_what_it_protects_and_how_it_grows():
    assert "per event" in str(tops(Event()).guarantee)
    window = tops(Window(length=60), horizon=4096)
    assert "window of 60 consecutive values" in str(window.guarantee)
    text = str(tops(UserHorizon(most=8)).guarantee)
    assert "at most 8 values count" in text
    assert "every further horizon adds ε" in text


@pytest.mark.parametrize("size", [0, -1, 1.5, "x", None, True])
def test_senseless_sizes_are_refused(size):
    with pytest.raises(SettingError):
        Window(length=size)
    with pytest.raises(SettingError):
        UserHorizon(most=size)
    with pytest.raises(SettingError):
        tops("window:60")


def test_noise_for_a_window_is_that_much_larger():
    def spread(unit):
        """In thresholds, since the noise is in proportion to the threshold that was chosen."""
        release = tops(unit, horizon=4096).start(tg.seeded(1))
        return release.push(np.zeros(20 + 4096)).std() / release.threshold

    assert 8 < spread(Window(length=10)) / spread(Event()) < 12


# -- at most k values per user ---------------------------------------------------------------------


def by_hand(units, users, most, horizon, holdout):
    """Straight from the definition: count within the hold-out, then within each horizon."""
    counts, window, out = Counter(), None, []
    for position, (unit, user) in enumerate(zip(units, users, strict=True)):
        now = -1 if position < holdout else (position - holdout) // horizon
        if now != window:
            counts, window = Counter(), now
        counts[user] += 1
        out.append(unit if counts[user] <= most else 0)
    return out


@settings(max_examples=examples(50))
@given(
    users=st.lists(st.sampled_from("abcde"), min_size=120, max_size=120),
    most=st.integers(1, 6),
    cuts=st.lists(st.integers(0, 120), max_size=6).map(sorted),
)
def test_the_cap_is_the_definition(users, most, cuts):
    """Equivariance: with the same noise, outputs differ as what was let through differs."""
    pipeline = tops(UserHorizon(most=most), horizon=32, epsilon=1000, resolution=1)
    values = np.random.default_rng(1).integers(1, 100, 120)
    kept = by_hand(values.tolist(), users, most, 32, 20)
    release, reference = (pipeline.start(tg.seeded(1)) for _ in range(2))
    seen = []
    original = release._cap.apply

    def apply(units, names, window):
        out = original(units, names, window)
        seen.extend(out.tolist())
        return out

    release._cap.apply = apply
    pieces = [
        release.push(part, names)
        for part, names in zip(
            np.split(values, cuts), np.split(np.array(users, dtype=object), cuts), strict=True
        )
    ]
    assert seen == kept
    alone = reference.push(np.array(kept), [f"user {i}" for i in range(120)])
    assert np.concatenate(pieces).tobytes() == alone.tobytes()


def test_the_cap_at_work():
    cap = UserCap(2)
    users = ["a", "b", "a", "a", "b", "b", "c"]
    assert cap.apply(np.arange(1, 8), users, 0).tolist() == [1, 2, 3, 0, 5, 0, 7]
    assert cap.apply(np.arange(1, 3), ["a", "c"], 0).tolist() == [0, 2]
    assert cap.apply(np.arange(1, 3), ["a", "c"], 1).tolist() == [1, 2]  # a new horizon


def test_the_cap_goes_on_from_its_state():
    users = ["a", "b"] * 4
    whole = UserCap(3)
    wanted = whole.apply(np.arange(1, 9), users, 0)
    first, second = UserCap(3), UserCap(3)
    start = first.apply(np.arange(1, 5), users[:4], 0)
    second.restore(first.state())
    rest = second.apply(np.arange(5, 9), users[4:], 0)
    assert np.concatenate((start, rest)).tolist() == wanted.tolist()


@pytest.mark.parametrize("place", [3, 20, 30, 83, 84, 140])
def test_resuming_inside_and_between_horizons(place):
    pipeline = tops(UserHorizon(most=2))
    values = np.random.default_rng(1).integers(0, 100, 200)
    users = [f"$int {index % 5}" for index in range(200)]
    whole = pipeline.start(tg.seeded(2)).push(values, users)
    release = pipeline.start(tg.seeded(2))
    start = release.push(values[:place], users[:place])
    rest = pipeline.resume(release.snapshot()).push(values[place:], users[place:])
    assert np.concatenate((start, rest)).tobytes() == whole.tobytes()


def test_a_user_with_many_values_moves_the_output_by_k_values_at_most():
    """What the proof needs: whatever one user sends, at most k inputs differ per horizon."""
    pipeline = tops(UserHorizon(most=3), horizon=64)
    users = ["alice" if index % 2 else f"other {index}" for index in range(20 + 64)]
    quiet = np.where(np.arange(84) % 2, 0, 10)
    loud = np.where(np.arange(84) % 2, 100, 10)
    one, two = (pipeline.start(tg.seeded(1)) for _ in range(2))
    differences = []
    for release, values in ((one, quiet), (two, loud)):
        kept = []
        original = release._cap.apply

        def apply(units, names, window, original=original, kept=kept):
            out = original(units, names, window)
            kept.extend(out.tolist())
            return out

        release._cap.apply = apply
        release.push(values, users)
        differences.append(np.array(kept))
    changed = np.flatnonzero(differences[0] != differences[1])
    assert (changed < 20).sum() == 3
    assert (changed >= 20).sum() == 3


# -- wrong use -------------------------------------------------------------------------------------

SECRET = "alice.4711@example.org"


@pytest.mark.parametrize("users", [None, [SECRET], [SECRET] * 4, []])
def test_users_that_do_not_fit_are_refused_and_not_shown(users):
    release = tops(UserHorizon(most=2)).start()
    with pytest.raises(InputError) as error:
        release.push([1.0, 2.0, 3.0], users)
    assert SECRET not in str(error.value)
    assert release.seen == 0
    release.push([1.0, 2.0, 3.0], [SECRET] * 3)
    assert SECRET not in repr(release)
    assert SECRET not in repr(release._cap)


@pytest.mark.parametrize("unit", [Event(), Window(length=3)])
def test_users_where_none_are_protected_are_refused(unit):
    release = tops(unit).start()
    with pytest.raises(InputError) as error:
        release.push([1.0], [SECRET])
    assert SECRET not in str(error.value)


def test_bad_values_next_to_users_show_neither():
    release = tops(UserHorizon(most=2)).start()
    with pytest.raises(InputError, match="position 1") as error:
        release.push([1.0, "secret"], [SECRET] * 2)
    assert "secret" not in str(error.value)
    assert SECRET not in str(error.value)


def test_one_value_of_one_user():
    release = tops(UserHorizon(most=1), holdout=1).start(tg.seeded(1))
    assert release.push(5.0, "a") is None
    assert isinstance(release.push(5.0, "a"), float)


def test_a_row_without_a_user_never_counts_for_someone_with_a_name():
    """It may be anyone's: if it counted, somebody could have more than k values."""
    cap = UserCap(1)
    out = cap.apply(np.array([5, 6, 7, 8]), ["a", None, None, "None"], 0)
    assert out.tolist() == [5, 0, 0, 8]
