"""What a commit writes of keys in columns is what their releases would have given."""

from __future__ import annotations

import hmac
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.durable.input_digests import SPAN, InputDigests, InputRecogniser
from tidegate.keyed.keyed_store import packed_keyed_rows, unpacked_keyed_rows
from tidegate.keyed.object_engine import ObjectEngine
from tidegate.keyed.recorded_columns import RecordedColumns
from tidegate.sealing import seal
from tidegate.tables.repeated_items import RepeatedItems

KEYS = ["a", "b", "c"]
TIMES = np.datetime64("2024-01-01", "s") + np.arange(1 << 14)


def columns_of(release: Any) -> tuple[ObjectEngine, RecordedColumns]:
    engine = release._engine
    assert isinstance(engine, ObjectEngine)
    assert engine._columns is not None
    return engine, engine._columns


@pytest.mark.parametrize("lower", [0, -20])
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("brief", [False, True])
def test_a_key_in_columns_has_the_state_of_its_release(
    lower: int, timed: bool, brief: bool
) -> None:
    """In warm-ups, windows and blocks, between cells and inside them; without changing it."""
    specification = tg.keyed(tg.adaptive(epsilon=3, bound=40, lower=lower, horizon=500), keys=KEYS)
    direct, settled = (specification.start(tg.seeded(7)) for _ in range(2))
    random, at, compared = np.random.default_rng(3), 0, 0
    for size in (200, 431, 777, 1024, 1500, 2100):
        codes = random.integers(0, 3, size)
        values, times = random.integers(lower, 41, size), TIMES[at : at + size] if timed else None
        for one in (direct, settled):
            one.push(RepeatedItems(KEYS, codes), values, times)
        at += size
        (_, columns), (engine, others) = columns_of(direct), columns_of(settled)
        for code in range(3):
            found = columns.snapshot(code, brief=brief)
            assert (found is None) == (code not in others._old)
            if found is not None:
                assert found == engine._release(code).snapshot(brief=brief)
                assert found == columns.snapshot(code, brief=brief)
                compared += 1
    assert compared > 9


def test_rows_of_a_commit_come_back() -> None:
    """Of pushes with runs and without; and as earlier states have them."""
    release = tg.keyed(tg.adaptive(epsilon=3, bound=40, horizon=500), keys=KEYS).start()
    codes = np.random.default_rng(1).integers(0, 3, 3000)
    whole = release.push(RepeatedItems(KEYS, codes), codes * 3, TIMES[:3000])
    tick = release.push(KEYS, [1, 2, 3], TIMES[3000:3003])
    assert whole.runs is not None
    assert tick.runs is None
    names = ("codes", "positions", "values", "levels", "times")
    for rows in (whole, tick):
        body = {name: getattr(rows, name) for name in names}
        earlier = seal({"content": "rows"}, {**body, "clock": rows.clock.plain()}, None)
        for stored in (packed_keyed_rows(rows), earlier):
            found = unpacked_keyed_rows(stored, KEYS)
            assert found is not None
            assert all(np.array_equal(getattr(found, name), body[name]) for name in names)
            assert found.codes.dtype == found.positions.dtype == np.int64
        assert len(packed_keyed_rows(rows)) < len(earlier)


def digests_row_by_row(key: bytes, values: list[int], users: list[str | None]) -> bytes:
    """What every stored state holds: number of the span, values, users with their lengths."""
    found = b""
    for number in range(len(values) // SPAN):
        here = slice(number * SPAN, (number + 1) * SPAN)
        content = number.to_bytes(8, "little")
        content += b"".join(value.to_bytes(1, "little") for value in values[here])
        for name in users[here]:
            encoded = (name or "").encode()
            content += len(encoded).to_bytes(4, "little") + encoded
        found += hmac.digest(key, content, "sha256")[:16]
    return found


def test_keys_that_come_repeated_have_the_digests_of_a_list() -> None:
    random, count = np.random.default_rng(2), 3 * SPAN + 99
    values, places = random.integers(0, 200, count), random.integers(0, 5, count)
    distinct = ["zone 1", "ä", None, "north", "zone 1"]  # joined columns may have one twice
    listed = [distinct[place] for place in places]
    repeated, plain = InputDigests(b"k", 200), InputDigests(b"k", 200)
    found = [b"", b""]
    for start in range(0, count, 5000):
        here = slice(start, start + 5000)
        found[0] += repeated.push(values[here], RepeatedItems(distinct, places[here]))
        found[1] += plain.push(values[here], listed[here])
    assert found[0] == found[1] == digests_row_by_row(b"k", values.tolist(), listed)
    assert repeated.user_tail == plain.user_tail == [name or "" for name in listed[-99:]]
    again = InputRecogniser(repeated, found[0])
    assert again.push(values, RepeatedItems(distinct, places))
    other = np.where(np.arange(count) == count - 5, 1 - places.clip(0, 1), places)
    assert not InputRecogniser(repeated, found[0]).push(values, RepeatedItems(distinct, other))
