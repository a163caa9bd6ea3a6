"""A released file that grows: only its new rows are read, and nothing else is taken for growth."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.io import open_sink
from tidegate.io import read_released as really_read
from tidegate.released import ReleasedFile
from tidegate.released import scan_into_block_sums as scan
from tidegate.run.public_facts import describe_facts

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "blocks of one": {"skipped": 0},
    "large blocks": {"skipped": 3},
    "blocked windows": {"rethreshold_every": 3000},
    "shared windows": {"rethreshold_every": 3000, "rethreshold_share": "0.2"},
    "started early": {"start_early": 300},
    "fine resolution": {"resolution": "0.1"},
}
VALUES = np.random.default_rng(1).poisson(20, 12_000)


class Growing:
    """A release that writes a file, a part at a time."""

    def __init__(self, path: Path, **settings: Any) -> None:
        pipeline = tg.tops(epsilon=0.5, bound=500, horizon=2**12, holdout=1024, **settings)
        self.path = path
        self.release = pipeline.start(tg.seeded(5))
        self.grow(2000)

    def grow(self, count: int) -> None:
        first, seen = self.release.position, self.release.seen
        values = self.release.push(VALUES[seen : seen + count])
        with open_sink(self.path, append_at=first or None) as sink:
            sink.write(first, values)
            facts = describe_facts(self.release.pipeline, self.release, self.release.phases)
            sink.set_metadata(facts)

    @property
    def index(self) -> Path:
        return self.path.with_name(f".{self.path.name}.tidegate-index")


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """From which position on each scan has read."""
    found: list[int] = []

    def noticed(*arguments: Any, after: tuple[int, int] | None = None) -> Iterator[Any]:
        found.append(0 if after is None else after[1])
        return really_read(*arguments, after=after)

    monkeypatch.setattr(scan, "read_released", noticed)
    return found


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_grown_file_has_the_index_that_a_scan_would_make(
    tmp_path: Path, begun: list[int], kind: str, settings: dict[str, Any]
) -> None:
    growing = Growing(tmp_path / f"private.{kind}", **settings)
    ends = [0]
    for count in (1, 997, 64, 4000, 333, 2000):
        ReleasedFile.open(growing.path)
        ends.append(growing.release.position)
        growing.grow(count)
    found = ReleasedFile.open(growing.path).record.query(7, growing.release.position)
    extended = growing.index.read_bytes()
    assert begun == ends
    growing.index.unlink()
    assert ReleasedFile.open(growing.path).record.query(7, growing.release.position) == found
    assert growing.index.read_bytes() == extended


def test_a_grown_non_negative_file_has_the_sums_of_its_rows(tmp_path: Path) -> None:
    """Debts are no whole units: running sums are rounded, and may differ by one from a scan's."""
    growing = Growing(tmp_path / "private.csv", non_negative=True)
    for count in (997, 64, 4000):
        ReleasedFile.open(growing.path)
        growing.grow(count)
    file = ReleasedFile.open(growing.path)
    rows = np.loadtxt(growing.path, delimiter=",", skiprows=1)[:, 1]
    block = file.pipeline.perturber.block
    for end in range(block, rows.size, 31 * block):
        assert file.record.query(0, end).estimate == pytest.approx(rows[:end].sum(), abs=1)


def rewritten(growing: Growing) -> None:
    """One digit in the middle is another: same length, same place."""
    text = bytearray(growing.path.read_bytes())
    at = text.index(b"\n700,") + 5
    text[at] = ord("8") if text[at] != ord("8") else ord("9")
    growing.path.write_bytes(bytes(text))
    growing.grow(100)


def replaced(growing: Growing) -> None:
    """Other noise, and more rows."""
    growing.path.unlink()
    pipeline = growing.release.pipeline
    growing.release = pipeline.start(tg.seeded(6))
    growing.grow(3000)


def shortened(growing: Growing) -> None:
    lines = growing.path.read_bytes().splitlines(keepends=True)
    growing.path.write_bytes(b"".join(lines[:500]))


def otherwise_described(growing: Growing) -> None:
    """The same rows and more, but the facts now tell another epoch."""
    growing.grow(100)
    facts = growing.path.with_name(f"{growing.path.name}.meta.json")
    content = json.loads(facts.read_text())
    content["phases"][0]["epoch"] = "0" * 32
    facts.write_text(json.dumps(content))


@pytest.mark.parametrize("change", [rewritten, replaced, shortened, otherwise_described])
def test_what_is_no_growth_is_read_from_its_start(
    tmp_path: Path, begun: list[int], change: Any
) -> None:
    growing = Growing(tmp_path / "private.csv")
    ReleasedFile.open(growing.path)
    change(growing)
    file = ReleasedFile.open(growing.path)
    assert begun == [0, 0]
    rows = np.loadtxt(growing.path, delimiter=",", skiprows=1)
    end = len(rows) // file.pipeline.perturber.block * file.pipeline.perturber.block
    assert file.record.query(0, end).estimate == pytest.approx(rows[:end, 1].sum(), abs=1)


def test_an_unfinished_last_line_is_read_again(tmp_path: Path, begun: list[int]) -> None:
    growing = Growing(tmp_path / "private.csv")
    whole = growing.path.read_bytes()
    growing.path.write_bytes(whole[:-2])
    ReleasedFile.open(growing.path)
    growing.path.write_bytes(whole)
    file = ReleasedFile.open(growing.path)
    assert begun == [0, 0]
    assert file.record.end == growing.release.position
