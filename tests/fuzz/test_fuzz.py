"""A few thousand hostile inputs for every parser; `make fuzz` gives them a million."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from tests.fuzz import harness

# Opening a released file takes a hundred times as long as reading a number.
COUNTS = {"metadata": 100, "local store": 200, "record": 400, "snapshot": 500, "ledger": 500,
          "event-settings": 200, "event-snapshot": 150, "keyed-snapshot": 50, "keyed-file": 25,
          "service-request": 100}  # fmt: skip
OTHERS = 420
TARGETS = harness.targets()


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_is_too_much(name):
    harness.run(name, TARGETS[name], range(COUNTS.get(name, OTHERS)))


def test_an_input_that_was_too_much_once():
    # An epsilon of 10⁻⁹⁹⁹: the message named the horizon that it would need, digit by digit.
    harness.run("options", TARGETS["options"], range(39_584, 39_585))


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("event-settings", 20_855),  # a bound of 600 digits in a message
        ("keyed-file", 52),  # a position that is no number, cast to one
        ("times", 4_822),  # 1e300 seconds in nanoseconds
        ("service-body", 25_403),  # a name in Arrow that is not UTF-8
        ("service-body", 29_372),  # and a zone
        ("service-body", 47_509),  # a column that lies about its buffers: Arrow crashed
        ("keyed-file", 48_115),  # a record of a key without segments
    ],
)
def test_inputs_that_found_a_fault(name, number):
    harness.run(name, TARGETS[name], range(number, number + 1))


def test_ten_thousand_inputs_are_tried():
    assert sum(COUNTS.get(name, OTHERS) for name in TARGETS) >= 10_000


def fault(rng: random.Random) -> None:
    raise KeyError("a fault")


def endless(rng: random.Random) -> None:
    while True:
        rng.random()


def test_the_harness_finds_what_it_looks_for(monkeypatch):
    # The planted faults: an error that is not ours, endless work, a hang, memory without limit, a
    # number that overflows.
    with pytest.raises(KeyError) as caught:
        harness.run("planted", fault, range(3, 5))
    assert caught.value.__notes__ == ["repeat it: python -m tests.fuzz.harness planted 3"]
    monkeypatch.setattr(harness, "SECONDS", 0.05)
    with pytest.raises(harness.TooSlowError):
        harness.run("planted", endless, range(1))
    monkeypatch.setattr(harness, "SECONDS", 5.0)
    monkeypatch.setattr(harness, "WAITING", 0.05)
    with pytest.raises(harness.TooSlowError):
        harness.run("planted", lambda rng: time.sleep(5), range(1))
    monkeypatch.undo()
    with pytest.raises(MemoryError):
        harness.run("planted", lambda rng: np.empty(1 << 33, dtype=np.int8), range(1))
    with pytest.raises(RuntimeWarning):
        harness.run("planted", lambda rng: np.array([np.nan]).astype(np.int64), range(1))


def test_an_input_is_the_same_every_time():
    seen = []
    for _ in range(2):
        harness.run("planted", lambda rng: seen.append(rng.random()), range(7, 8))
    assert seen[0] == seen[1]
