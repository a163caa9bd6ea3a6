"""Charges, ends, caps and declarations: what is accepted, what is refused, and how it reads."""

import math
import pickle
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path

import pytest

from tidegate.errors import SettingError, TidegateError
from tidegate.guarantee import Guarantee, simulated
from tidegate.ledger import CapExceeded, Charge, Closing, Ledger, LedgerError, Opening

HERE = {"source": "meters", "epoch": "5f1c2a3b4c5d", "stage": "stream"}


def test_a_charge_is_what_was_charged(ledger: Ledger, tenth: Guarantee) -> None:
    charge = ledger.charge(**HERE, start=7, end=9, guarantee=tenth, note="ünïcode\nlines")
    assert charge == ledger.entries[-1] == ledger.charges("meters")[0]
    assert (charge.source, charge.epoch, charge.stage) == tuple(HERE.values())
    assert (charge.start, charge.end, charge.guarantee) == (7, 9, tenth)
    assert (charge.sequence, charge.hash, charge.note) == (2, ledger.head, "ünïcode\nlines")
    assert charge.time == datetime(2025, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert isinstance(ledger.entries[0], Opening)


@pytest.mark.parametrize(
    "guarantee",
    [
        simulated(Guarantee(epsilon=Fraction(1, 10))),
        Guarantee(epsilon=Fraction(1, 10), simulation=True),
        Guarantee(epsilon=math.inf),
        Guarantee(epsilon=math.nan),
    ],
)
def test_what_promises_nothing_is_refused(ledger: Ledger, path: Path, guarantee: Guarantee) -> None:
    before = path.read_bytes()
    with pytest.raises(SettingError, match="a seeded release is a simulation"):
        ledger.charge(**HERE, start=0, guarantee=guarantee)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"guarantee": Guarantee(epsilon=-1)}, "epsilon: must be at least 0"),
        ({"guarantee": Guarantee(epsilon=1, delta=1)}, "delta: must be at least 0 and below 1"),
        ({"guarantee": Guarantee(epsilon=1, delta=-1)}, "delta: must be at least 0 and below 1"),
        ({"guarantee": 0.1}, "guarantee: must be a Guarantee, not float"),
        ({"start": -1}, "start: must be at least 0"),
        ({"start": 1.5}, "start: must be a whole number"),
        ({"start": 5, "end": 5}, "end: must be at least 6"),
        ({"source": ""}, "source: must be printable text"),
        ({"source": 3}, "source: must be printable text"),
        ({"stage": "a\nb"}, "stage: must be printable text"),
        ({"epoch": "\x1b[2J"}, "epoch: must be printable text"),
        ({"note": None}, "note: must be text"),
    ],
)
def test_wrong_charges_are_refused_by_name(
    ledger: Ledger, path: Path, tenth: Guarantee, change: dict[str, object], problem: str
) -> None:
    before = path.read_bytes()
    with pytest.raises(SettingError, match=problem):
        ledger.charge(**{**HERE, "start": 0, "guarantee": tenth, **change})
    assert path.read_bytes() == before
    ledger.charge(**HERE, start=0, guarantee=tenth)  # and the ledger goes on


def test_a_refusal_says_everything(path: Path, tenth: Guarantee) -> None:
    with Ledger.open(path, cap="1/4") as ledger:
        for _ in range(2):
            ledger.charge(**HERE, start=0, guarantee=tenth)
        before = path.read_bytes()
        with pytest.raises(CapExceeded) as refused:
            ledger.charge(**HERE, start=10, guarantee=tenth)
        assert path.read_bytes() == before
    error = pickle.loads(pickle.dumps(refused.value))
    assert isinstance(error, TidegateError)
    assert (error.source, error.charged, error.total, error.cap) == (
        "meters", Fraction(1, 10), Fraction(3, 10), Fraction(1, 4),
    )  # fmt: skip
    assert str(error).startswith(
        "meters: with this charge of ε = 0.1 the total would be 0.3, above the cap of 0.25; "
        "nothing was charged"
    )
    assert "set_cap" in str(error)


def test_a_cap_is_remembered_and_changed_only_on_purpose(path: Path, tenth: Guarantee) -> None:
    with Ledger.open(path) as ledger:
        assert ledger.cap is None
        assert ledger.left("meters") is None
    with Ledger.open(path, cap=0.2) as ledger:
        assert ledger.left("meters") == Fraction(1, 5)
    for same in (None, "1/5", 0.2):
        with Ledger.open(path, cap=same) as ledger:
            assert ledger.cap == Fraction(1, 5)
            assert ledger.count == 2  # nothing written again
    with pytest.raises(SettingError, match=r"cap: the ledger's is 1/5, not 1: change it by"):
        Ledger.open(path, cap=1)
    with Ledger.open(path) as ledger:
        ledger.charge(**HERE, start=0, end=9, guarantee=tenth)
        ledger.set_cap(0.05, note="new policy")
        assert ledger.left("meters") == Fraction(-1, 20)
        assert "over by 0.05" in ledger.table()
        with pytest.raises(CapExceeded):  # elsewhere too: it is over its cap
            ledger.charge(**HERE, start=9, guarantee=Guarantee(epsilon=Fraction(1, 100)))
        ledger.set_cap(1)
        ledger.charge(**HERE, start=0, guarantee=tenth)
    with pytest.raises(SettingError, match="cap: must be greater than 0"):
        Ledger.open(path, cap=0)


def test_a_phase_after_a_phase_costs_the_larger(path: Path, tenth: Guarantee) -> None:
    with Ledger.open(path, cap=0.1) as ledger:
        first = ledger.charge(**HERE, start=0, guarantee=tenth)
        with pytest.raises(CapExceeded):  # the first has no end yet
            ledger.charge(**HERE, start=50, guarantee=tenth)
        closed = ledger.close_charge(first, 50)
        assert (closed.end, closed.sequence) == (50, first.sequence)
        assert isinstance(ledger.entries[-1], Closing)
        ledger.charge(**HERE, start=50, guarantee=tenth)
        assert ledger.total() == tenth
        assert ledger.entries[2] == first  # as it was written


def test_an_end_gives_back_what_lay_behind_it(path: Path, tenth: Guarantee) -> None:
    with Ledger.open(path, cap=0.2) as ledger:
        first = ledger.charge(**HERE, start=0, guarantee=tenth)
        ledger.charge(**HERE, start=50, guarantee=tenth)
        assert ledger.left("meters") == 0
        ledger.close_charge(first, 50)
        assert ledger.left("meters") == Fraction(1, 10)
        ledger.set_cap(0.1)
        ledger.charge(**HERE, start=0, end=50, guarantee=Guarantee(epsilon=0))
        assert ledger.total() == tenth


def test_what_has_ended_never_opens_again(ledger: Ledger, tmp_path: Path, tenth: Guarantee) -> None:
    fixed = ledger.charge(**HERE, start=0, end=9, guarantee=tenth)
    opened = ledger.charge(**HERE, start=9, guarantee=tenth)
    before = ledger.count
    with pytest.raises(SettingError, match="charge: it already ends, at 9"):
        ledger.close_charge(fixed, 5)
    with pytest.raises(SettingError, match="end: must be at least 9"):
        ledger.close_charge(opened, 8)
    assert ledger.count == before
    ledger.close_charge(opened, 9)  # it took no value at all
    with pytest.raises(SettingError, match="charge: it already ends, at 9"):
        ledger.close_charge(opened, 20)
    assert [(part.start, part.end) for part in ledger.ranges("meters")] == [(0, 9)]
    with Ledger.open(tmp_path / "other") as other:
        foreign = other.charge(**HERE, start=0, guarantee=tenth)
    with pytest.raises(SettingError, match="charge: it is not in this ledger"):
        ledger.close_charge(foreign, 5)


def test_threads_share_one_cap(path: Path) -> None:
    refused: list[CapExceeded] = []

    def work(ledger: Ledger) -> None:
        for _ in range(10):
            try:
                ledger.charge(**HERE, start=0, guarantee=Guarantee(epsilon=Fraction(1, 7)))
            except CapExceeded as error:
                refused.append(error)
            ledger.left("meters")

    with Ledger.open(path, cap=3) as ledger:
        threads = [threading.Thread(target=work, args=(ledger,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with Ledger.open(path) as ledger:
        assert ledger.total().epsilon == 3
        assert len(refused) == 40 - 21


def test_times_are_utc(path: Path, tenth: Guarantee) -> None:
    cairo = timezone(timedelta(hours=2))
    with Ledger.open(path, clock=lambda: datetime(2025, 6, 1, 1, 30, tzinfo=cairo)) as ledger:
        assert ledger.entries[0].time == datetime(2025, 5, 31, 23, 30, tzinfo=UTC)
    assert b'"time":"2025-05-31T23:30:00.000Z"' in path.read_bytes()
    with pytest.raises(SettingError, match="clock: must say its time zone"):
        Ledger.open(path, cap=1, clock=lambda: datetime(2025, 6, 1))  # noqa: DTZ001


def test_the_table(path: Path, clock: Callable[[], datetime], tenth: Guarantee) -> None:
    third = Guarantee(epsilon=Fraction(1, 3), delta=Fraction(1, 10**6))
    with Ledger.open(path, cap=0.5, clock=clock) as ledger:
        ledger.charge(**{**HERE, "stage": "threshold"}, start=0, end=64, guarantee=tenth)
        ledger.charge(**HERE, start=64, guarantee=tenth)
        ledger.charge(**HERE, start=100, guarantee=tenth, note="after a lost state")
        ledger.charge(**{**HERE, "source": "shops"}, start=0, guarantee=third)
        ledger.declare("shops", disjoint=True)
        assert str(ledger) == ledger.table()
        assert ledger.table() == (
            """\
when (UTC)           source  stage      positions    ε         δ     epoch
-------------------  ------  ---------  ---------  ---  --------  --------
2025-01-01 00:00:02  meters  threshold  [0, 64)    0.1         0  5f1c2a3b
2025-01-01 00:00:03  meters  stream     [64, …)    0.1         0  5f1c2a3b
2025-01-01 00:00:04  meters  stream     [100, …)   0.1         0  5f1c2a3b
2025-01-01 00:00:05  shops   stream     [0, …)     1/3  0.000001  5f1c2a3b

source  positions  charged per value          ε         δ
------  ---------  -----------------------  ---  --------
meters  [0, 64)    threshold 0.1            0.1         0
meters  [64, 100)  stream 0.1               0.1         0
meters  [100, …)   stream 0.1 + stream 0.1  0.2         0
shops   [0, …)     stream 1/3               1/3  0.000001

the most any value has spent    ε         δ             left of 0.5
----------------------------  ---  --------  ---------  -----------
meters                        0.2         0  per event          0.3
shops (disjoint)              1/3  0.000001  per event          1/6
all sources                   1/3  0.000001  per event"""
        )
        assert repr(ledger) == f"<Ledger {path} entries=7 head={ledger.head[:8]}…>"


def test_an_empty_table(ledger: Ledger) -> None:
    assert ledger.table().splitlines()[0] == "Nothing was charged yet."


def test_a_closed_ledger_can_be_read_but_not_charged(path: Path, tenth: Guarantee) -> None:
    with Ledger.open(path) as ledger:
        ledger.charge(**HERE, start=0, guarantee=tenth)
    assert ledger.total() == tenth
    with pytest.raises(LedgerError, match="it is closed: nothing can be charged"):
        ledger.charge(**HERE, start=0, guarantee=tenth)
    assert all(isinstance(charge, Charge) for charge in ledger.charges())
