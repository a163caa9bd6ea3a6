"""Scores are those of the paper's formulas, written down plainly."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from experiments.scoring import METRICS, Ranges, score


@given(
    values=st.lists(st.integers(-1000, 1000), min_size=1, max_size=60),
    count=st.integers(1, 30),
    seed=st.integers(0, 2**32),
)
def test_sums_over_ranges_are_the_sums_of_slices(values: list[int], count: int, seed: int) -> None:
    stream = np.array(values)
    ranges = Ranges.drawn(count, stream.size, (seed,))
    expected = [stream[a:b].sum() for a, b in zip(ranges.starts, ranges.ends, strict=True)]
    assert ranges.sums(stream).tolist() == expected


def test_every_range_lies_in_the_stream_and_has_a_value() -> None:
    ranges = Ranges.drawn(2000, 50, (1,))
    assert ranges.starts.min() == 0
    assert ranges.ends.max() == 50
    assert (ranges.ends > ranges.starts).all()


def test_the_four_measures() -> None:
    released, truth = np.array([1.0, 5.0, 0.0, 2.0]), np.array([1, 2, 3, 4])
    ranges = Ranges(np.array([0, 1]), np.array([4, 3]))
    errors, lengths = np.array([8.0 - 10, 5.0 - 5]), np.array([4, 2])
    assert score(released, ranges.sums(truth), ranges) == {
        "mse": np.mean(errors**2),
        "mae": np.mean(abs(errors)),
        "mmse": np.mean((errors / lengths) ** 2),
        "mmae": np.mean(abs(errors / lengths)),
    }
    assert set(METRICS) == {"mse", "mae", "mmse", "mmae"}


def test_the_same_seed_draws_the_same_ranges_and_another_one_others() -> None:
    first, again, other = (Ranges.drawn(200, 2**20, seed) for seed in ((1, 0), (1, 0), (1, 1)))
    assert (first.starts == again.starts).all()
    assert (first.starts != other.starts).any()
