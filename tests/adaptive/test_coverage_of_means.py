"""How often the intervals of means of events hold."""

import numpy as np

import tidegate as tg

HOURS, EACH = 168, 40
START = np.datetime64("2024-01-01T00:00")


def test_intervals_hold_as_often_as_they_say():
    # Catches: the interval of a sum alone, divided by the count. Here most error is in the count.
    means = tg.event_means(
        0.5, 30, share="9/10", every="1h", start="2024-01-01", horizon=HOURS, fixed=True
    )
    held, alone, asked = 0, 0, 0
    for seed in range(30):
        random = np.random.default_rng(seed)
        times = START + random.integers(0, HOURS * 60, HOURS * EACH).astype("timedelta64[m]")
        values = random.uniform(0, 30, times.size)
        release = means.start(tg.seeded(seed))
        release.push(times, values)
        release.advance("2024-01-08")
        table = release.table("1d").columns()
        days = (times - START).astype("timedelta64[D]").astype(int)
        truth = np.bincount(days, values, 7) / np.bincount(days, minlength=7)
        held += np.sum((table["mean_low"] <= truth) & (truth <= table["mean_high"]))
        one = table["sum_low"] / table["count"], table["sum_high"] / table["count"]
        alone += np.sum((one[0] <= truth) & (truth <= one[1]))
        asked += truth.size
    assert held / asked > 0.9
    assert alone / asked < 0.85
