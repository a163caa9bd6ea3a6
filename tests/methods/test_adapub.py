"""What `benchmarks.adapub` says of AdaPub's groups."""

import math

import numpy as np
import pytest

from benchmarks.adapub import loss, mended


def test_two_tests_by_hand():
    """Noise of scale 2·10/0.2 = 100, limit 1: deviations 1 and 4/3, where there were none."""

    def passes(distance):
        return 1 - math.exp(-distance / 100) / 2 if distance > 0 else math.exp(distance / 100) / 2

    expected = 2 * math.log(passes(1)) - math.log(passes(0)) - math.log(passes(-1 / 3))
    assert loss(2, 1.0, 10) == pytest.approx(expected)


def test_a_group_that_outlives_the_window_costs_more_than_is_said():
    """ε_c = 0.2 is said for any w steps; the loss grows with every test."""
    assert loss(60, 1.0, 60) < 0.2 < loss(120, 1.0, 60)
    assert loss(1200, 1.0, 60) > 1  # more than all of ε


def test_mended_it_publishes_medians_of_groups():
    """At a large ε equal counts are published as they are, and a step begins a group."""
    values = np.repeat([0, 1000], 200)
    published, most = mended(values, 1e5, 3)
    assert np.abs(published - values).mean() < 5
    assert most >= 1
