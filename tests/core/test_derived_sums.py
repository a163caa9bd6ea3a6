"""Sums that fade, sliding sums, whole counts: right by hand, and never worse than they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tidegate.errors import SettingError
from tidegate.released import DecayedSum, SlidingSum, WholeCounts

BITS = st.lists(st.integers(0, 3), min_size=1, max_size=60)
NOISE = st.lists(st.floats(-20, 20), min_size=60, max_size=60)


@given(values=BITS, noise=NOISE, life=st.floats(0.2, 50), window=st.integers(1, 70))
def test_errors_are_at_most_twice_those_of_running_sums(values, noise, life, window) -> None:
    truth, errors = np.array(values, dtype=float), np.array(noise[: len(values)])
    released = truth + np.diff(errors, prepend=0.0)  # running sums are off by `errors`
    most = 2 * np.abs(errors).max() + 1e-6
    for make in (lambda: DecayedSum(life), lambda: SlidingSum(window)):
        assert np.abs(make().push(released) - make().push(truth)).max() <= most


@given(values=BITS, noise=NOISE)
def test_whole_counts_are_never_further_off_than_the_counter_was(values, noise) -> None:
    truth, errors = np.cumsum(values), np.array(noise[: len(values)])
    counts = WholeCounts(most=3).push(np.diff(truth + errors, prepend=0.0))
    assert set(counts.tolist()) <= {0.0, 1.0, 2.0, 3.0}
    rounded = np.maximum.accumulate(np.abs(np.rint(truth + errors) - truth) + 1e-6)
    # A running sum at a half may round to the other side than here: one more.
    assert np.all(np.abs(np.cumsum(counts) - truth) <= rounded + 1)


def test_any_split_gives_the_same() -> None:
    values = np.random.default_rng(1).normal(2, 9, 300)
    for make in (lambda: DecayedSum(7), lambda: SlidingSum(11), lambda: WholeCounts(5)):
        whole, split = make(), make()
        parts = [split.push(part) for part in np.array_split(values, 7)]
        assert np.array_equal(whole.push(values), np.concatenate(parts))


def test_of_a_release_of_bits() -> None:
    """Whole counts of the binary counter: fewer wild steps, and no more error."""
    bits = np.random.default_rng(2).integers(0, 2, 4096)
    release = tg.binary_tree(epsilon=2, bound=1, horizon=4096, holdout=0).start(tg.seeded(1))
    released = release.push(bits)
    counts = WholeCounts(most=1).push(released)
    assert set(counts.tolist()) == {0.0, 1.0}
    off = [np.abs(np.cumsum(one) - np.cumsum(bits)).max() for one in (counts, released)]
    assert off[0] <= off[1] + 1
    assert np.abs(counts - bits).mean() < np.abs(released - bits).mean() / 5


def test_by_hand() -> None:
    assert DecayedSum(2).push([4, 0, 0, 0, 0]) == pytest.approx([4, 8**0.5, 2, 2**0.5, 1])
    assert SlidingSum(3).push([1, 10, 100, 1000]).tolist() == [1, 11, 111, 1110]
    for make in (lambda: DecayedSum(0), lambda: SlidingSum(0), lambda: WholeCounts(0)):
        with pytest.raises(SettingError):
            make()
