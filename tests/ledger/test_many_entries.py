"""A ledger of many entries: anything quadratic would take minutes here."""

from fractions import Fraction
from pathlib import Path

import pytest

from tidegate.guarantee import Guarantee
from tidegate.ledger import Ledger
from tidegate.ledger.entries import entry_facts_of_charge
from tidegate.ledger.ledger_file import LedgerFile

ENTRIES = 20_000


def test_many_entries(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Ledger.open(path).close()
    lines: list[bytes] = []
    chain = LedgerFile(path, create=False, read_only=True, key=None)
    assert len(list(chain.read())) == 1
    monkeypatch.setattr(chain, "_write", lines.append)  # all at once, not one fsync each
    for number in range(ENTRIES):
        guarantee = Guarantee(epsilon=Fraction(1, 10 + number % 7))
        start = number * 17 % 9973
        facts = entry_facts_of_charge("a", "5f" * 16, "stream", start, start + 500, guarantee)
        chain.append("charge", "2025-01-01T00:00:00.000Z", {**facts, "note": ""})
    chain.close()
    with path.open("ab") as file:
        file.write(b"".join(lines))

    with Ledger.open(path) as ledger:
        assert ledger.count == ENTRIES + 1
        assert ledger.total("a").epsilon > 1
        ledger.charge(
            source="a", epoch="5f", stage="stream", start=0, guarantee=Guarantee(epsilon=1)
        )
        assert ledger.count == ENTRIES + 2
