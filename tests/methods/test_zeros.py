"""Zeros: nothing of the data is in it, nothing is spent, and its intervals hold all there is."""

import numpy as np
import pytest

import tidegate as tg
from tidegate.units import Event


def test_nothing_of_the_data_is_released():
    """The same bytes, whatever the values are: ε = 0."""
    pipeline = tg.zeros(epsilon=1, bound=50, horizon=100, resolution=1)
    streams = np.zeros(300), np.full(300, 50.0), np.random.default_rng(1).uniform(0, 99, 300)
    releases = [pipeline.start(tg.seeded(7)) for _ in streams]
    outs = [release.push(values) for release, values in zip(releases, streams, strict=True)]
    assert all(not out.any() for out in outs)
    spans = [release.record.segments[0].leaves.spans() for release in releases]
    assert all(not one.numbers.any() and not one.marks.any() for one in spans)
    assert pipeline.guarantee.epsilon == 0
    assert pipeline.unit == Event()


@pytest.mark.parametrize("lower", [0, -20])
def test_intervals_hold_all_that_is_possible_by_hand(lower):
    """n values from `lower` to 50, all at one end. √(n(n + 1))·θ/2 is the standard error."""
    release = tg.zeros(epsilon=1, bound=50, resolution=1, lower=lower).start()
    for values in (np.full(40, 50.0), np.full(40, float(lower))):
        release.push(values)
    found = release.queries(np.array([0, 40, 5]), np.array([40, 80, 12]))
    assert not found.estimate.any()
    assert 1 <= found.standard_error[0] / (np.sqrt(40 * 41) * (50 - lower) / 2) < 1.25
    assert found.high[0] == 40 * 50
    assert found.low[1] <= 40 * lower
    assert found.high[2] >= 7 * 50


def test_epsilon_must_be_a_budget_all_the_same():
    with pytest.raises(tg.SettingError, match="epsilon"):
        tg.zeros(epsilon=0, bound=50)
