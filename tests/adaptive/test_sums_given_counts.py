"""Sums of events that are answered with what their released numbers tell."""

import numpy as np
import pytest

import tidegate as tg
from tidegate.record.record_given_counts import RecordGivenCounts, given_counts_tell

HOURS = 512
START = np.datetime64("2024-01-01T00:00")
END = START + np.timedelta64(HOURS, "h")
CLOCK = {"every": "1h", "start": "2024-01-01", "horizon": HOURS}


def log(seed, each=40.0):
    """Events of about the same value, at a rate that jumps from hour to hour."""
    random = np.random.default_rng(seed)
    counts = random.poisson(each * np.exp(random.normal(0, 1, HOURS // 8).repeat(8)))
    times = START + np.repeat(np.arange(HOURS), counts).astype("timedelta64[h]")
    return times, random.uniform(8, 12, times.size), counts


def released(seed, **settings):
    times, values, counts = log(seed)
    release = tg.event_means(1, 200, fixed=True, **CLOCK, **settings).start(tg.seeded(seed))
    release.push(times, values)
    release.advance(END)
    sums = np.bincount((times - START).astype("timedelta64[h]").astype(int), values, HOURS)
    return release, np.cumsum(sums), counts


def ranges_error(found, truth):
    """The mean squared error over all ranges."""
    return 2 * np.var(np.concatenate(([0], found - truth)))


def test_numbers_make_sums_accurate():
    # Catches: a profile that is not given back, or that is taken away twice; leaves and numbers of
    # different ticks; weights of models that never saw what is left.
    errors, held, asked = [], 0, 0
    ends = np.arange(1, HOURS + 1)
    for seed in range(6):
        release, truth, _ = released(seed)
        alone, counts = release.sums.record, release.counts.record
        assert given_counts_tell(alone, counts)
        given = RecordGivenCounts(alone, counts)
        both = [one.queries(np.zeros_like(ends), ends) for one in (given, alone)]
        errors.append([ranges_error(one.estimate, truth) for one in both])
        days = given.queries(ends[:-24:24], ends[24::24])
        sums = truth[ends[24::24] - 1] - truth[ends[:-24:24] - 1]
        held += np.sum((days.low <= sums) & (sums <= days.high))
        asked += sums.size
        assert release.sum(24, 48) == given.query(24, 48)  # that is what users get
    mine, theirs = np.array(errors).T
    assert np.exp(np.mean(np.log(mine / theirs))) < 0.65
    assert held / asked > 0.9


def test_what_was_known_then():
    # Catches: an answer "as of then" that knows later numbers.
    release, _, _ = released(3)
    record = release.sums.record
    for at in (200, 333):
        then = release.query(100, 200, as_of=at)
        assert then.sum == record.query(100, 200, as_of=at)
    assert release.query(100, 200).sum != record.query(100, 200)


def test_more_ticks_make_a_new_answer():
    # Catches: answers that are kept although more was released.
    times, values, _ = log(5)
    release = tg.event_means(1, 200, fixed=True, **CLOCK).start(tg.seeded(5))
    release.push(times, values)
    release.advance("2024-01-15")
    before = release.query("2024-01-02", "2024-01-09")
    release.advance(END)
    after = release.query("2024-01-02", "2024-01-09")
    fresh = RecordGivenCounts(release.sums.record, release.counts.record)
    assert after.sum.estimate == fresh.query("2024-01-02", "2024-01-09").estimate
    assert before.sum.estimate != after.sum.estimate


@pytest.mark.parametrize("counts", ["too noisy", "of fewer ticks"])
def test_sums_alone_where_numbers_tell_nothing(counts):
    times, values, _ = log(1, each=0.02)
    release = tg.event_means(0.1, 200, fixed=True, **CLOCK).start(tg.seeded(1))
    release.push(times, values)
    release.sums.advance(END)
    release.counts.advance(END if counts == "too noisy" else "2024-01-20")
    sums = release.sums.record
    assert not given_counts_tell(sums, release.counts.record)
    if counts == "too noisy":
        assert release.sum(0, HOURS) == sums.query(0, HOURS)


def test_sums_alone_where_numbers_mislead():
    # Events without a value come and go, and those with one do not: m·N̂ would be a wrong profile.
    random = np.random.default_rng(2)
    steady = START + np.arange(HOURS).repeat(60).astype("timedelta64[h]")
    bursts = random.choice((0, 400), HOURS // 8).repeat(8)
    idle = START + np.repeat(np.arange(HOURS), bursts).astype("timedelta64[h]")
    values = np.append(np.full(steady.size, 20.0), np.zeros(idle.size))
    release = tg.event_means(3, 60, fixed=True, **CLOCK).start(tg.seeded(2))
    release.push(np.append(steady, idle), values)
    release.advance(END)
    alone, counts = release.sums.record, release.counts.record
    assert given_counts_tell(alone, counts)
    segments = RecordGivenCounts(alone, counts).segments
    assert [type(one) for one in segments] == [type(one) for one in alone.segments]
    assert release.sum(24, 48) == alone.query(24, 48)
