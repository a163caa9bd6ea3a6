"""Sums of the events of a tick: exact in 64 bits, and cut where those are not enough."""

from __future__ import annotations

import numpy as np
import pytest

from tests.depth import in_turn
from tidegate.run.event_log import EventLog, added

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
        assert added(places, units, 4).tolist() == expected
