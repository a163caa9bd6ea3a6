"""After a crash: cut anywhere, a file is mended to its whole rows and goes on to the same bytes."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tidegate.errors import SettingError
from tidegate.io import (
    SinkError,
    open_sink,
    output_recovery,
    read_metadata,
    recover,
    recover_rows,
    recoverable,
)

VALUES = np.array([10.5, 12.0, -3.25, 1e-7, 0.0, 7.0, 1e20, 5.5, 9.0, 100.0, 11.0, 12.125])


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("first", [0, 98])
@pytest.mark.parametrize("zeros", [0, 5])
def test_cut_at_every_byte(tmp_path, monkeypatch, kind, first, zeros):
    monkeypatch.setattr(output_recovery, "_READ_BYTES", 64)  # head and tail are not the whole file
    whole = tmp_path / f"whole.{kind}"
    with open_sink(whole) as sink:
        sink.write(first, VALUES)
    data = whole.read_bytes()
    header = 1 if kind == "csv" else 0
    path = tmp_path / f"cut.{kind}"
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut] + b"\0" * zeros)
        rows = max(0, data[:cut].count(b"\n") - header)
        found = recover(path)
        assert found.rows == recover_rows(path) == rows
        assert found.first == (first if rows else 0)
        assert path.read_bytes() == data[: data[:cut].rfind(b"\n") + 1]
        with open_sink(path, append_at=rows) as sink:
            sink.write(first + rows, VALUES[rows:])
        assert path.read_bytes() == data


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_long_file_is_judged_by_its_ends(tmp_path, kind):
    path = tmp_path / f"out.{kind}"
    with open_sink(path) as sink:
        sink.write(0, np.arange(200_000) / 4)
    assert recover_rows(path) == 200_000
    with path.open("ab") as file:
        file.write(b"\0" * 1_000_000)
    assert recover_rows(path) == 200_000


def test_appending(tmp_path):
    path = tmp_path / "out.csv"
    assert recover_rows(path) == 0  # no file, no rows
    with open_sink(path, append_at=0, metadata={"a": 1}) as sink:
        sink.write(0, VALUES[:3])
    with open_sink(path, append_at=3) as sink:  # facts stay unless others are given
        with pytest.raises(SettingError, match="must be 3"):
            sink.write(4, VALUES[4:])
        sink.write(3, VALUES[3:])
    assert read_metadata(path) == {"a": 1}
    assert recover_rows(path) == VALUES.size
    for wrong in (0, 5, 13):
        with pytest.raises(SinkError, match=f"has 12 rows, not {wrong}"):
            open_sink(path, append_at=wrong)
    with open_sink(path, append_at=12, metadata={"a": 2}) as sink:
        sink.write(12, VALUES)
    assert read_metadata(path) == {"a": 2}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("out.csv", "user,value\n1,2\n"),
        ("out.csv", "mine"),
        ("out.csv", "position,value\nabc"),
        ("out.csv", "position,value\n0,1\nabc"),
        ("out.csv", "position,value\n0,1\n2,1\n"),
        ("out.csv", "position,value\n0,secret!\n1"),
        ("out.csv", "position,value\n5,1\n4,1\n"),
        ("out.jsonl", "mine"),
        ("out.jsonl", '{"x":1}\n'),
        ("out.jsonl", '{"position":0,"value":1}\n\n'),
    ],
)
def test_a_file_that_is_not_ours_is_left_alone(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    for attempt in (lambda: recover_rows(path), lambda: open_sink(path, append_at=0)):
        with pytest.raises(SinkError) as caught:
            attempt()
        assert "secret" not in str(caught.value)
        assert path.read_text() == text


def test_ends_that_do_not_belong_together(tmp_path, monkeypatch):
    monkeypatch.setattr(output_recovery, "_READ_BYTES", 64)
    path = tmp_path / "out.csv"
    with open_sink(path) as sink:
        sink.write(500, np.zeros(50))
    late = path.read_bytes()
    with open_sink(path) as sink:
        sink.write(0, np.zeros(50))
    path.write_bytes(late + path.read_bytes().removeprefix(b"position,value\n"))
    with pytest.raises(SinkError, match="do not count up"):
        recover_rows(path)


def test_what_can_be_continued():
    assert recoverable("out.csv")
    assert recoverable("out.log", "jsonl")
    for path in ("out.csv.gz", "out.jsonl.zst", "out.parquet", "-", None):
        assert not recoverable(path)
        with pytest.raises(SettingError):
            open_sink(path, append_at=0)
    with pytest.raises(SettingError, match="can be continued"):
        recover_rows("out.parquet")


def test_a_copy_is_continued_like_the_original(tmp_path):
    path = tmp_path / "out.csv"
    with open_sink(path) as sink:
        sink.write(0, VALUES)
    shutil.copy(path, tmp_path / "copy.csv")
    assert recover_rows(tmp_path / "copy.csv") == VALUES.size
