"""Non-negative output: negative values are paid out of the next positive ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tidegate.run.non_negative import NonNegativeRemainder


def naive(values: Sequence[float]) -> list[float]:
    out, debt = [], 0.0
    for value in values:
        owed = debt + value
        out.append(max(0.0, owed))
        debt = min(0.0, owed)
    return out


NUMBERS = st.lists(st.one_of(st.integers(-50, 50).map(float), st.floats(-1e6, 1e6)), max_size=400)


@given(NUMBERS)
def test_it_is_the_plain_loop(values: list[float]) -> None:
    settled = np.array(values, dtype=np.float64)
    NonNegativeRemainder().settle(settled)
    assert np.all(settled >= 0)
    np.testing.assert_array_equal(settled, naive(values))


@given(NUMBERS, st.lists(st.integers(0, 400), max_size=6))
def test_any_split_gives_the_same_bits(values: list[float], cuts: list[int]) -> None:
    whole = np.array(values, dtype=np.float64)
    NonNegativeRemainder().settle(whole)
    run = NonNegativeRemainder()
    parts = [part.copy() for part in np.split(np.array(values, dtype=np.float64), sorted(cuts))]
    for part in parts:
        run.settle(part)
    assert np.concatenate(parts).tobytes() == whole.tobytes()


def test_by_hand() -> None:
    values = np.array([3.0, -5.0, 2.0, 1.0, 4.0, -1.0, -1.0, 0.0, 10.0, -3.0])
    NonNegativeRemainder().settle(values)
    assert values.tolist() == [3, 0, 0, 0, 2, 0, 0, 0, 8, 0]


@pytest.mark.parametrize("skipped", [0, 1])
def test_the_running_sum_is_the_highest_running_sum_so_far(skipped: int) -> None:
    common = {
        "threshold": tg.threshold.Fixed(9),
        "perturber": tg.perturb.Hierarchy(epsilon="1/10", horizon=200, fanout=4, skipped=skipped),
        "resolution": "1/10",
    }
    values = np.random.default_rng(0).integers(0, 9, size=1000)
    # The settings are part of the noise's identity, so the raw stream comes from the noisy sums.
    release = tg.Pipeline(**common, non_negative=True).start(tg.seeded(1))
    out = release.push(values)
    assert np.all(out >= 0)
    raw = np.diff(
        [release.query(0, end, as_of=end).estimate for end in range(1001)]
    )  # the sum of released values, before they were made non-negative
    highest = np.maximum(np.maximum.accumulate(np.cumsum(raw)), 0)
    if skipped == 0:
        np.testing.assert_allclose(np.cumsum(out), highest, atol=1e-6)
    else:  # inside blocks the raw stream is predictions, at ends corrections: the same law
        np.testing.assert_allclose(np.cumsum(out), highest, atol=1e-5)
    assert np.any(raw < 0)


def test_nothing_accumulates_unlike_with_clipping() -> None:
    """A stream of zeros: clipping would publish the positive half of all the noise."""
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(9),
        perturber=tg.perturb.Hierarchy(epsilon="1/10", horizon=4096, skipped=0),
        non_negative=True,
    )
    totals, clipped = [], []
    for seed in range(10):
        release = pipeline.start(tg.seeded(seed))
        totals.append(release.push(np.zeros(20_000)).sum())
        raw = release.queries(np.arange(20_000), np.arange(1, 20_001)).estimate
        clipped.append(np.maximum(raw, 0).sum())
    assert np.mean(totals) < 0.02 * np.mean(clipped)
