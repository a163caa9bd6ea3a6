"""A hold-out or a warm-up of events that left θ where it began: the ends of answers are open."""

from __future__ import annotations

import numpy as np

import tidegate as tg

NEW_YEAR = np.datetime64("2024-01-01T00:00", "s")


def test_a_hold_out_that_left_its_threshold_at_a_step_has_open_ends() -> None:
    """Ends of a few steps about sums of hundreds, and none of these held."""
    low = 0
    for seed in range(12):
        random = np.random.default_rng(seed)
        values = np.where(random.random(500) < 0.05, random.gamma(2.0, 20, 500), 0)
        release = tg.adaptive(1, 2000, horizon=440, holdout=60).start(tg.seeded(seed))
        release.push(values)
        step = float(release.pipeline.threshold_step or 0)
        if (release.threshold or 0) > 4 * step:
            continue
        low += 1
        answer, truth = release.query(0, 440), values[60:].sum()
        assert answer.blind
        assert answer.low <= truth <= answer.high
        assert answer.high > 100 * answer.estimate  # it reaches as far as such values may
    assert low >= 3


def test_events_that_are_mostly_0_have_open_ends() -> None:
    """A total of 2.2, at most 4.1, for 2,219."""
    held, low, count, ticks = 0, 0, 6000, 6000
    for seed in range(6):
        random = np.random.default_rng(seed)
        values, at = random.poisson(0.18, count), np.sort(random.integers(0, ticks * 3600, count))
        settings = {"every": "1h", "start": "2024-01-01T00:00", "horizon": ticks}
        release = tg.events(0.1, 4, **settings).start(tg.seeded(seed))
        release.push(NEW_YEAR + at.astype("timedelta64[s]"), values)
        release.finish(NEW_YEAR + np.timedelta64(ticks, "h"))
        answer = release.query(0, ticks)
        if answer.threshold < 0.02:  # the others chose well, or too high
            low += 1
            held += answer.low <= values.sum() <= answer.high
    assert low >= 1
    assert held == low
