"""The benchmark of short streams runs on the stages as they are now."""

from __future__ import annotations

import numpy as np

from benchmarks.kinds import KINDS
from benchmarks.short_streams import STRATEGIES, range_error


def test_the_release_is_better_than_with_a_hold_out_and_than_nothing() -> None:
    values, bound = KINDS["level up tenfold"](1024)  # full caps: blocks end early, θ changes

    def error(name: str) -> float:
        runs = [range_error(STRATEGIES[name](values, bound, 3.0, seed), values) for seed in (0, 1)]
        return float(np.mean(runs))

    assert error("product") < min(error("held out"), error("nothing")) / 2
