"""Smoothed sums beside a released file: the same answers, sooner, never those of another file."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.estimate.mixture import mixture_posterior
from tidegate.released import smoothed_file

_ROWS = 6000
_RANGES = [(0, _ROWS), (17, 18), (1000, 4321), (5990, _ROWS)]


def _saved(path: Path, seed: int, rows: int = _ROWS) -> Path:
    """A file whose record is long: blocks of some dozen values, several models with weight."""
    values = tg.synthetic.baskets(rows, seed=seed) + 20 * (np.arange(rows) // 1500 % 2)
    pipeline = tg.adaptive(epsilon=2, bound=200, horizon=512, history=1 << 30)
    release = pipeline.start(tg.seeded(seed))
    rows_out = release.push_rows(values)
    released = tg.Released(
        rows_out,
        release.record,
        pipeline,
        threshold=release.threshold,
        promise=release.guarantee,
        phases=release.phases,
    )
    released.save(path)
    return path


def _answers(path: Path) -> list[Any]:
    """Every number of some answers, from opening the file on."""
    file = tg.open(path)
    starts, ends = (list(part) for part in zip(*_RANGES, strict=True))
    found = file.queries(starts, ends)
    table = file.table(700)
    assert isinstance(found, type(table))
    parts = (found.estimate, found.low, found.high, table.estimate, table.standard_error)
    return [part.tolist() for part in parts]


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.tidegate-smoothed")


@pytest.fixture
def no_smoothing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call it: from then on, smoothing a record fails the test."""

    def forbid() -> None:
        def refused(_: object) -> None:
            raise AssertionError("the record was smoothed again")

        monkeypatch.setattr(mixture_posterior, "mixture_views", refused)

    return forbid


def test_a_file_that_is_asked_again_is_not_smoothed_again(
    tmp_path: Path, no_smoothing: Any
) -> None:
    path = _saved(tmp_path / "private.csv", 1)
    first = _answers(path)
    assert _beside(path).stat().st_mode & 0o777 == path.stat().st_mode & 0o666
    no_smoothing()
    assert _answers(path) == first  # the same bits


def test_questions_about_earlier_moments_are_not_answered_from_it(tmp_path: Path) -> None:
    path = _saved(tmp_path / "private.csv", 1)
    asked = tg.open(path).query(100, _ROWS - 50, as_of=_ROWS - 40)
    later = tg.open(path).query(100, _ROWS - 50)  # with what the question before has left
    _beside(path).unlink()
    again = tg.open(path)
    assert again.query(100, _ROWS - 50) == later != asked
    assert again.query(100, _ROWS - 50, as_of=_ROWS - 40) == asked


def test_it_never_answers_for_another_file(tmp_path: Path) -> None:
    one, other = _saved(tmp_path / "one.csv", 1), _saved(tmp_path / "other.csv", 2)
    expected, _ = _answers(one), _answers(other)
    # Another release comes to the name of the first; its smoothed sums stay.
    _beside(one).write_bytes(_beside(other).read_bytes())
    assert _answers(one) == expected
    before = _beside(one).read_bytes()
    assert _answers(other) != expected
    _beside(one).write_bytes(before)
    for suffix in ("", ".meta.json"):
        (tmp_path / f"one.csv{suffix}").write_bytes((tmp_path / f"other.csv{suffix}").read_bytes())
    assert _answers(one) == _answers(other)


def test_what_is_damaged_is_not_used(tmp_path: Path) -> None:
    path = _saved(tmp_path / "private.csv", 1)
    expected, beside = _answers(path), _beside(path)
    whole = beside.read_bytes()
    places = [0, 25, 60, len(whole) // 2, len(whole) - 1]
    damaged = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in places]
    for data in (b"", whole[:-8], whole[:30], whole + b"\0", *damaged):
        beside.write_bytes(data)
        assert _answers(path) == expected
        assert beside.read_bytes() == whole  # written again


def test_a_full_disk_only_costs_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _saved(tmp_path / "private.csv", 1)
    expected = _answers(path)
    _beside(path).unlink()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(smoothed_file._atomic_files, "write_all", full)
    assert _answers(path) == expected
    assert not list(tmp_path.glob(".private.csv.tidegate-smoothed*"))


def test_other_versions_smooth_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _saved(tmp_path / "private.csv", 1)
    expected, before = _answers(path), _beside(path).read_bytes()
    monkeypatch.setattr(smoothed_file, "__version__", "99")
    assert _answers(path) == expected
    assert _beside(path).read_bytes() != before


def test_short_records_and_cycles_leave_nothing(tmp_path: Path) -> None:
    short = _saved(tmp_path / "short.csv", 1, rows=200)
    tg.open(short).query(0, 100)
    assert not _beside(short).exists()
    pipeline = tg.adaptive(epsilon=2, bound=200, horizon=512, history=1 << 30, period=48)
    wave = 60 + 50 * np.sin(np.arange(_ROWS) / 48 * 2 * np.pi)
    release = pipeline.start(tg.seeded(1))
    rows = release.push_rows(wave)
    facts: dict[str, Any] = {"threshold": release.threshold, "phases": release.phases}
    path = tmp_path / "cycle.csv"
    tg.Released(rows, release.record, pipeline, promise=release.guarantee, **facts).save(path)
    answered = tg.open(path).query(100, 2000)
    assert tg.open(path).query(100, 2000) == answered
