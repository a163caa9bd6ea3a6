"""What the tests of the ledger share: a clock that ticks, guarantees, a filled ledger."""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import count
from pathlib import Path

import pytest

from tidegate.guarantee import Guarantee
from tidegate.ledger import Ledger

KEY = bytes(range(32))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.ledger"


@pytest.fixture
def clock() -> Callable[[], datetime]:
    """One second passes between two entries."""
    seconds = count()
    return lambda: datetime(2025, 1, 1, tzinfo=UTC) + timedelta(seconds=next(seconds))


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of contents, which open a ledger hundreds of times: an fsync may take 10 ms."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def tenth() -> Guarantee:
    return Guarantee(epsilon=Fraction(1, 10))


@pytest.fixture
def ledger(path: Path, clock: Callable[[], datetime]) -> Iterator[Ledger]:
    with Ledger.open(path, clock=clock) as opened:
        yield opened


@pytest.fixture(params=[None, KEY], ids=["plain", "keyed"])
def key(request: pytest.FixtureRequest) -> bytes | None:
    return request.param


@pytest.fixture
def filled(
    path: Path, clock: Callable[[], datetime], tenth: Guarantee, key: bytes | None
) -> tuple[int, str]:
    """A ledger with every kind of entry, closed; gives its anchor."""
    with Ledger.open(path, cap=1, key=key, clock=clock) as ledger:
        ledger.charge(source="a", epoch="5f", stage="threshold", start=0, end=64, guarantee=tenth)
        stream = ledger.charge(source="a", epoch="5f", stage="stream", start=64, guarantee=tenth)
        ledger.close_charge(stream, 128)
        ledger.declare("b", disjoint=True)
        ledger.charge(source="b", epoch="6e", stage="stream", start=0, guarantee=tenth, note="last")
        return ledger.count, ledger.head
