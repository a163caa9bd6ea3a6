"""The prototype for short streams runs on the stages as they are now.

It stands on inner parts of the forecaster, so a change there can break it unseen.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.kinds import KINDS
from benchmarks.short_streams import STRATEGIES, range_error


@pytest.mark.parametrize("strategy", ["staged", "exact"])
def test_the_prototype_is_better_than_today_and_than_nothing(strategy: str) -> None:
    values, bound = KINDS["level up tenfold"](1024)  # full caps: blocks end early, θ changes

    def error(name: str) -> float:
        runs = [range_error(STRATEGIES[name](values, bound, 3.0, seed), values) for seed in (0, 1)]
        return float(np.mean(runs))

    assert error(strategy) < min(error("today"), error("nothing")) / 2
