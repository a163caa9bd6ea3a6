"""Times given as values, and numbers as times of events: refused, with what to write."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest

import tidegate as tg
from tidegate.keyed import keyed

STAMPS = pd.date_range("2024-01-01", periods=4, freq="min")
TIMES = [
    STAMPS,
    STAMPS.to_series(),
    STAMPS.tz_localize("Europe/Berlin"),
    STAMPS.to_numpy(),
    list(STAMPS),
    [None, datetime(2024, 1, 1)],  # noqa: DTZ001  # a wall clock
    ["2024-01-01", "2024-01-01T00:01"],
    polars.Series(list(STAMPS)),
    pyarrow.array(list(STAMPS)),
    pyarrow.chunked_array([pyarrow.array(list(STAMPS))]),
]
NUMBERS = [[1, 2.5], [None, 3], np.arange(4), pd.Series([1.5, 2]), polars.Series([1, 2]),
           pyarrow.array([1, 2]), pd.array([1, None], dtype="Int64"), 7]  # fmt: skip
CLOCK: dict[str, Any] = {"every": "1min", "start": "2024-01-01", "horizon": 64}


def releases() -> dict[str, Any]:
    """A release of each kind, and what to write for it."""
    readings, log = tg.adaptive(1, 10, horizon=64), tg.events(1, 10, **CLOCK)
    return {
        "push(values, times=times)": readings.start(),
        "push(times, values)": log.start(),
        "push(keys, values, times)": keyed(readings, keys=["a"]).start(),
        "push(keys, times, values)": keyed(log, keys=["a"]).start(),
    }


@pytest.mark.parametrize("times", TIMES, ids=lambda one: type(one).__name__)
def test_times_are_no_values(times: Any) -> None:
    for form, release in releases().items():
        given = {
            "push(values, times=times)": (times,),
            "push(times, values)": (STAMPS, times),
            "push(keys, values, times)": (["a"] * len(times), times, range(len(times))),
            "push(keys, times, values)": (["a"] * len(times), STAMPS, times),
        }[form]
        with pytest.raises(tg.InputError, match="are times, not numbers: write") as refused:
            release.push(*given)
        assert form in str(refused.value)
        assert "2024" not in str(refused.value)  # says where, never what
        assert release.seen == 0


@pytest.mark.parametrize("numbers", NUMBERS, ids=lambda one: type(one).__name__)
def test_numbers_are_no_times_of_events(numbers: Any) -> None:
    found = releases()
    log, logs = found["push(times, values)"], found["push(keys, times, values)"]
    with pytest.raises(tg.InputError, match=r"are numbers: write push\(times, values\)"):
        log.push(numbers, STAMPS)
    with pytest.raises(tg.InputError, match=r"are numbers: write push\(keys, times, values\)"):
        logs.push(["a", "a"], numbers)
    assert (log.seen, logs.seen) == (0, 0)


def test_numbers_since_1970_are_times_where_they_are_said_to_be() -> None:
    zoned = tg.events(1, 10, **{**CLOCK, "start": "2024-01-01T00:00Z"}).start()
    seconds = np.arange(5) + 1_704_067_200
    zoned.push(tg.read_times(seconds), [1] * 5)
    assert (zoned.seen, zoned.dropped) == (5, 0)
    with pytest.raises(tg.InputError, match=r"they have a zone .numbers since 1970 do, too., and"):
        releases()["push(times, values)"].push(tg.read_times(seconds), [1] * 5)
    with pytest.raises(
        tg.InputError, match="they have no zone, and the start of the ticks has one"
    ):
        tg.events(1, 10, **{**CLOCK, "start": "2024-01-01T00:00Z"}).start().push(STAMPS, [1] * 4)
