"""Means of events push to two releases: cut short between them, nothing may be pushed again."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.interruptions import Interrupted
from tidegate.errors import InputError, TidegateError

START = np.datetime64("2024-02-01")
TIMES = START + np.arange(8) * np.timedelta64(10, "m")
MEANS = tg.event_means(8, 9, every="1h", start="2024-02-01", horizon=64, resolution=1, fixed=True)


def stopped(work: Any, line: int) -> bool:
    """Raise at this line of the package; False: the work has fewer."""
    left = line

    def local(frame: Any, event: str, _: Any) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left == -1:
                sys.settrace(None)
                raise Interrupted
        return local

    def tracer(frame: Any, event: str, _: Any) -> Any:
        return local if "tidegate/run/event_means" in frame.f_code.co_filename else None

    sys.settrace(tracer)
    try:
        work()
    except Interrupted:
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.parametrize("verb", ["push", "advance"])
def test_at_every_line(verb: str) -> None:
    # Catches: sums that took the events and counts that did not; the retry counted them twice.
    line, refused = 0, 0
    while True:
        release = MEANS.start(tg.seeded(1))
        release.push(TIMES, np.arange(8))

        def work(release: Any = release) -> None:
            if verb == "push":
                release.push(TIMES, np.arange(8))
            else:
                release.advance(START + np.timedelta64(2, "h"))

        if not stopped(work, line):
            break
        before = release.sums.seen, release.counts.seen, release.sums.position
        whole = before[0] == release.counts.seen and before[2] == release.counts.position
        if before != (8, 8, 0) or not whole:
            with pytest.raises(TidegateError, match="cut short"):
                work()
            assert (release.sums.seen, release.counts.seen, release.sums.position) == before
            refused += 1
        line += 1
    assert line > 8
    assert refused > 1


def test_a_refused_input_changes_nothing_and_may_be_mended() -> None:
    release = MEANS.start(tg.seeded(1))
    with pytest.raises(InputError):
        release.push([*TIMES[:7].tolist(), "never"], np.arange(8))
    release.push(TIMES, np.arange(8))
    assert (release.sums.seen, release.counts.seen) == (8, 8)


def test_nothing_is_answered_after_a_change_that_was_cut_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Caught: the sums of ticks that were never handed out.
    release = MEANS.start(tg.seeded(1))
    release.push(TIMES, np.arange(8))
    release.advance(START + np.timedelta64(17, "h"))
    assert release.count(0, 16).estimate == release.counts.query(0, 16).estimate

    def interrupt(*_: Any) -> None:
        raise Interrupted

    monkeypatch.setattr(release.counts, "advance", interrupt)
    with pytest.raises(Interrupted):
        release.advance(START + np.timedelta64(18, "h"))
    assert (release.sums.position, release.counts.position) == (18, 17)
    for ask in (release.sum, release.count, release.mean):
        with pytest.raises(TidegateError, match="cut short"):
            ask(0, 16)


def test_times_that_can_be_read_once() -> None:
    # Caught: the sums had read them, and the counts found none left.
    release = MEANS.start(tg.seeded(1))
    release.push(iter(TIMES.tolist()), np.arange(8))
    assert (release.sums.seen, release.counts.seen) == (8, 8)
