"""Reports of which nobody has said that they arrived: kept, and sent again as they are."""

from pathlib import Path

import pytest

from tests.local.devices import asked, device
from tidegate.errors import RefusedError


def test_reports_that_nobody_acknowledged_are_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    client = device(path)
    first = client.answer(asked("r1"), 5, event="a")
    second = client.answer(asked("r2"), 6, event="b")
    assert client.unacknowledged == (first, second)
    client.acknowledge("r1")
    client.acknowledge("r1")  # once more: nothing happens
    client.memory.close()
    later = device(path)
    assert later.unacknowledged == (second,)
    assert later.sent("r1") == first  # what was acknowledged is remembered all the same
    assert later.answer(asked("r2"), 99, event="b") == second
    later.acknowledge("r2")
    assert later.unacknowledged == ()
    assert len(later.ledger) == 2
    later.answer(asked("r3"), 7, event="c")
    later.memory.close()
    assert [report.round for report in device(path).unacknowledged] == ["r3"]


def test_only_what_was_reported_can_be_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    client = device(path)
    with pytest.raises(RefusedError, match="nothing was reported"):
        client.acknowledge("r1")
    client.answer(asked("r1"), 5)
    client.acknowledge("r1")
    client.memory.close()
    text = path.read_text(encoding="utf-8")
    damaged = text.replace('"acknowledged":["r1"]', '"acknowledged":["r2"]')
    assert damaged != text
    with path.open("r+", encoding="utf-8") as file:  # the same inode
        file.write(damaged)
    with pytest.raises(RefusedError, match="damaged"):
        device(path)
