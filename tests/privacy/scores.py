"""What the scores of a private choice must do when one value is replaced."""

from collections.abc import Callable

import numpy as np

Scores = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, int]]


def check_scores(scores: Scores, rounds: int) -> None:
    """Monotone, and of sensitivity 1, for 50 values from 0 to 200.

    Not less either: that would be paid for and not used.
    """
    random = np.random.default_rng(1)
    largest = denominator = 0
    for _ in range(rounds):
        values = random.integers(0, 201, size=50)
        other = values.copy()
        other[random.integers(50)] = random.integers(0, 201)
        grid, before, denominator = scores(values)
        moved = scores(other)[1] - before
        assert (moved >= 0).all() or (moved <= 0).all()
        assert grid.size == before.size
        largest = max(largest, int(np.abs(moved).max()))
    assert largest == denominator
