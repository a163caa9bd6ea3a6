"""Sums of the events of a tick: exact in 64 bits, and cut where those are not enough."""

from __future__ import annotations

import numpy as np
import pytest

import tidegate as tg
from tests.depth import in_turn
from tidegate.run.event_log import EventLog, added_to_log

KEPT = ("values", "sums")


@pytest.mark.parametrize(
    ("kept", "sign"), in_turn([(kept, sign) for sign in (1, -1) for kept in KEPT], 0, of=3)
)
def test_a_sum_of_many_large_events_is_cut_and_does_not_wrap(kept: str, sign: int) -> None:
    """64 bits are not enough for what settings allow; one event more moves a sum by θ at most."""
    cap, many = 1 << 41, (1 << 22) - 8  # 16 events before 2⁶³
    most = (1 << 61) // 16
    known = kept == "sums"

    def total(count: int) -> int:
        log = EventLog(most, cap if known else None)
        log.add(np.zeros(many, dtype=np.int64), np.full(many, sign * cap))
        log.add(np.zeros(count, dtype=np.int64), np.full(count, sign * cap))
        if known:
            log.state()  # adds up what waits
        sums, _ = log.take(0, 1, cap)
        return int(sums[0])

    assert [total(count) for count in (0, 7, 8, 9)] == [sign * most] * 4


def test_sums_are_the_same_in_halves() -> None:
    random = np.random.default_rng(5)
    places = random.integers(0, 4, 300)
    for bits in (30, 50, 61):
        units = random.integers(-(1 << bits), 1 << bits, 300)
        wanted = [sum(units[places == at].tolist()) for at in range(4)]
        limit = 1 << 62
        expected = [max(-limit, min(limit, one)) for one in wanted]
        assert added_to_log(places, units, 4).tolist() == expected


@pytest.mark.parametrize("sign", [1, -1])
def test_when_events_are_added_up_does_not_matter(sign: int) -> None:
    """Caught: what waits is added up at every 65th push, and was cut there.

    One event of 1 more made that the push before: 2⁶³ was cut at 2⁶² before −2⁶³ came, and a tick
    of 63 became −2⁵⁷ (settings with a bound of 2⁴¹ units, 2²² events of either sign).
    """
    cap, many, most = 1 << 58, 1 << 5, 1 << 57  # settings allow 2⁴¹ and 2²² events
    place, places = np.zeros(1, dtype=np.int64), np.zeros(many, dtype=np.int64)

    def total(small: int, *, saved: bool = False) -> int:
        log = EventLog(most, cap)
        for _ in range(small):
            log.add(place, np.ones(1, dtype=np.int64))
        for large in (sign * cap, -sign * cap):
            log.add(places, np.full(many, large))
            if saved:
                before, log = log.state(), EventLog(most, cap)
                log.restore(before)
        return int(log.take(0, 1, cap)[0][0])

    assert [total(small) for small in (63, 64, 65)] == [63, 64, 65]
    assert total(3, saved=True) == 3


def test_a_warm_up_that_was_ended_early_is_followed_by_other_noise() -> None:
    """`finish`, then on from a snapshot of before: blocks lie elsewhere, nothing is subtracted."""
    pipeline = tg.events(epsilon=1, every="1h", start="2024-01-01", horizon=256)
    release = pipeline.start(tg.seeded(1))
    release.close_ticks(3)  # no event ever comes: what is released is noise
    saved, found = release.snapshot(), []
    for ended, more in ((True, 2), (True, 2), (True, 4), (False, 13)):
        other = pipeline.resume(saved)
        other.close_ticks(more)
        if ended:
            other.finish()
        (segment,) = other._run.segments
        other.close_ticks(60)
        drawn = other._run._blocks.perturber.keystream
        found.append((segment.blocks[1].start, drawn.at().take(4).tolist()))
    assert [start for start, _ in found] == [5, 5, 7, 16]
    assert found[0] == found[1]
    assert len({tuple(words) for _, words in found}) == 3
