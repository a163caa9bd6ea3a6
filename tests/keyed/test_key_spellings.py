"""A key is the same key however it is written, whatever came before, and after a restart."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.errors import InputError, SettingError

PIPELINE = tg.Pipeline(
    threshold=tg.threshold.Fixed(20), perturber=tg.perturb.Hierarchy(epsilon=1, horizon=64)
)
DECLARED = tg.keyed(PIPELINE, keys=["17", "é"])
SAME: list[Any] = [17, 17.0, b"17", "17", np.int8(17), np.uint64(17), np.float32(17)]
SAME += [np.str_("17"), np.bytes_(b"17")]
# Equal to 17, and no key: 17 may be in a cache when they come.
EQUAL: list[Any] = [Decimal(17), Fraction(17), 17 + 0j]
OTHER = [
    "17 ",
    " 17",
    "017",
    "17.0",
    "\uff11\uff17",
    "e\u0301",
    True,
    None,
    float("nan"),
    1.5,
    10**5000,
]


@pytest.mark.parametrize("before", [[], [17, "é"], SAME], ids=["alone", "17", "all spellings"])
def test_what_came_before_decides_nothing(before: list[Any]) -> None:
    """In a cache by equality Decimal(17) was found after 17 had come, and not after a restart."""
    release = DECLARED.start(tg.seeded(1))
    release.push(before, np.ones(len(before)))
    begun, dropped = release.counts()[0], release.dropped
    for key in SAME:
        release.push([key, key], [1, 1])
    assert (release.counts()[0], release.dropped) == (begun + 2 * len(SAME), dropped)
    for key in (*EQUAL, *OTHER):
        release.push([key], [1])
        release.push(["é", key], [1, 1])
    assert release.counts()[0] == begun + 2 * len(SAME)
    assert release.dropped == dropped + 2 * (len(EQUAL) + len(OTHER))


def test_a_restart_decides_nothing() -> None:
    release = DECLARED.start(tg.seeded(1))
    release.push([17, "é"], [1, 1])
    again = DECLARED.resume(release.snapshot())
    for one in (release, again):
        one.push([Decimal(17), 17.0, "17"], [1, 1, 1])
        assert (one.counts()[0], one.dropped) == (3, 1)


@pytest.mark.parametrize("keys", [["é", "e\u0301"], ["17", "17 "], [17, "17"], [17, 17.0]])
def test_keys_that_nobody_could_tell_apart_are_not_declared_together(keys: list[Any]) -> None:
    with pytest.raises(SettingError, match="declared twice"):
        tg.keyed(PIPELINE, keys=keys)


@pytest.mark.parametrize("key", [*EQUAL, 10**5000, (17,), object()], ids=lambda key: str(type(key)))
def test_open_keys_refuse_what_is_none(key: Any) -> None:
    release = tg.keyed(PIPELINE, keys_are_public=True).start(tg.seeded(1))
    release.push([17, "a"], [1, 1])
    for keys in ([key], ["a", key]):
        with pytest.raises(InputError, match="key at position"):
            release.push(keys, np.ones(len(keys)))
    assert release.keys == ["17", "a"]


@pytest.mark.parametrize("key", [[17], {17}, bytearray(b"17")], ids=repr)
def test_what_cannot_be_looked_up_is_refused(key: Any) -> None:
    release = DECLARED.start(tg.seeded(1))
    with pytest.raises(InputError, match="texts or whole numbers"):
        release.push([key], [1])


def test_columns_of_decimals_are_no_keys() -> None:
    release = DECLARED.start(tg.seeded(1))
    release.push([17], [1])
    release.push(pa.array([Decimal(17), Decimal(3)]), [1, 1])
    assert (release.counts()[0], release.dropped) == (1, 2)
