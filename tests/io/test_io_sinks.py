"""Sinks: what was written is read back exactly, and bytes do not depend on how it was split."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import stat
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.depth import examples
from tidegate.errors import SettingError
from tidegate.io import (
    KINDS,
    SinkError,
    SourceError,
    open_sink,
    open_source,
    parquet_sink,
    read_metadata,
    read_released,
    recoverable,
)
from tidegate.io.released_row_text import number_as_text, released_csv_rows, released_json_rows

FACTS = {"guarantee": "ε = 1 per event", "threshold": 12.5, "blocks": [1, 2]}


def sample(count: int) -> np.ndarray:
    """Runs, integers, decimals and awkward floats."""
    generator = np.random.default_rng(count)
    pieces = [
        np.repeat(generator.integers(0, 99, 1 + count // 64) / 8, 64),
        np.rint(generator.normal(0, 1e4, count)),
        generator.normal(0, 1e3, count),
        np.exp(generator.uniform(-60, 60, count)),
    ]
    return np.concatenate(pieces)[generator.integers(0, 64) :][:count]


def released(path) -> tuple[int, np.ndarray]:
    pieces = list(read_released(path))
    return pieces[0][0], np.concatenate([values for _, values in pieces])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [0, 17])
def test_what_was_written_is_read_back(tmp_path, kind, first):
    path = tmp_path / f"out.{kind}"
    values = np.concatenate([sample(100_000), [-0.0, 5e-324, 1.7976931348623157e308, 1e15, 1e22]])
    with open_sink(path, metadata=FACTS) as sink:
        sink.write(first, values[:7])
        sink.write(first + 7, values[7:])
    start, found = released(path)
    assert start == first
    assert found.tobytes() == values.tobytes()
    assert read_metadata(path) == FACTS
    with open_source(path, column="value") as source:  # also by whoever knows nothing of us
        assert np.concatenate([batch.values for batch in source.batches()]).tobytes() == (
            values.tobytes()
        )


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_file_and_no_metadata(tmp_path, kind):
    path = tmp_path / f"out.{kind}"
    open_sink(path).close()
    assert list(read_released(path)) == []
    assert read_metadata(path) is None


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_do_not_depend_on_the_split(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(parquet_sink, "GROUP_ROWS", 1 << 14)  # several row groups in little time
    values = sample(150_000)
    found = set()
    for sizes in ([150_000], [1, 3, 64, 65, 4000], [1 << 14], [70_000]):
        path = tmp_path / f"out.{kind}"
        with open_sink(path, metadata=FACTS) as sink:
            at = turn = 0
            while at < values.size:
                size = sizes[turn % len(sizes)]
                sink.write(at, values[at : at + size])
                if turn % 3 == 0:
                    sink.flush()
                at, turn = at + size, turn + 1
        found.add(path.read_bytes())
    assert len(found) == 1
    if kind == "parquet":
        metadata = pq.read_metadata(path)
        lengths = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        assert lengths == [1 << 14] * 9 + [150_000 % (1 << 14)]


@settings(max_examples=examples(70), deadline=None)  # of twenty numbers
@given(st.lists(st.floats(), min_size=1, max_size=20), st.integers(0, 10**15))
def test_few_rows_and_many_are_written_alike(values, first):
    array = np.array(values * 70)[:70]
    for rows in (released_csv_rows, released_json_rows):
        for columns in ([array], [np.sort(array)], [array, np.sort(array)]):
            alone = b"".join(
                bytes(rows(first + index, [column[index : index + 1] for column in columns]))
                for index in range(array.size)
            )
            assert bytes(rows(first, columns)) == alone


@given(st.floats(allow_nan=False))
def test_a_number_reads_back_as_itself(value):
    text = number_as_text(value)
    assert np.float64(text).tobytes() == np.float64(value).tobytes()
    assert len(text) <= len(repr(value)) + 4  # an exponent instead of zeros


def test_json_lines_are_json(tmp_path):
    path = tmp_path / "out.jsonl"
    with open_sink(path) as sink:
        sink.write(0, np.array([10.5, 12, np.nan, np.inf, -np.inf, 1e20]))
    rows = [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]
    assert rows[0] == {"position": 0, "value": 10.5}
    assert [row["value"] for row in rows] == [10.5, 12, None, np.inf, -np.inf, 1e20]
    assert path.read_text().startswith('{"position":0,"value":10.5}\n')


def test_gzip_is_gzip_and_has_no_clock(tmp_path):
    path = tmp_path / "out.csv.gz"
    with open_sink(path) as sink:
        sink.write(0, np.array([1.5]))
    assert gzip.decompress(path.read_bytes()) == b"position,value\n0,1.5\n"
    assert path.read_bytes()[4:8] == b"\0\0\0\0"


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_appears_whole_or_grows_in_place(tmp_path, kind):
    path = tmp_path / f"out.{kind}"
    path.write_bytes(b"old")
    with open_sink(path) as sink:
        sink.write(0, np.array([1.0]))
        sink.flush(sync=True)
        if recoverable(path):
            assert b"1" in path.read_bytes()
        else:
            assert path.read_bytes() == b"old"
    assert released(path)[1].tolist() == [1.0]
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~_umask()
    content = path.read_bytes()
    with contextlib.suppress(KeyError), open_sink(path) as sink:
        sink.write(0, np.arange(5.0))
        raise KeyError
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    if not recoverable(path):
        assert path.read_bytes() == content


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_what_a_killed_run_left_is_cleared_away(tmp_path):
    path = tmp_path / "out.parquet"
    program = (
        "import os, sys, numpy, tidegate.io\n"
        "sink = tidegate.io.open_sink(sys.argv[1])\n"
        "sink.write(0, numpy.zeros(2_000_000))\n"
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", program, path], check=False)
    assert not path.exists()
    assert len(list(tmp_path.iterdir())) == 1
    open_sink(path).close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.parquet"]


def test_of_two_writers_one_is_told(tmp_path):
    path = tmp_path / "out.parquet"
    first, second = open_sink(path), open_sink(path)
    first.write(0, np.array([1.0]))
    second.write(0, np.array([2.0]))
    with pytest.raises(SinkError, match="another process"):
        first.close()
    second.close()
    assert released(path)[1].tolist() == [2.0]
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.parquet"]


@pytest.mark.parametrize("kind", KINDS)
def test_metadata_may_change_until_the_end(tmp_path, kind):
    path = tmp_path / f"out.{kind}"
    with open_sink(path, metadata=FACTS) as sink:
        sink.set_metadata({"threshold": 3})
        if recoverable(path):
            assert read_metadata(path) == {"threshold": 3}
    assert read_metadata(path) == {"threshold": 3}
    with pytest.raises(SettingError, match="metadata"):
        open_sink(path, metadata={"x": object()})
    assert read_metadata(path) == {"threshold": 3}
    open_sink(path).close()  # a new file without facts does not keep the old one's
    assert read_metadata(path) is None


def test_damaged_metadata(tmp_path):
    (tmp_path / "out.csv.meta.json").write_text("{")
    with pytest.raises(SourceError, match="metadata is damaged"):
        read_metadata(tmp_path / "out.csv")


@pytest.mark.parametrize("kind", KINDS)
def test_positions_follow_each_other(tmp_path, kind):
    with open_sink(tmp_path / f"out.{kind}") as sink:
        sink.write(3, np.zeros(2))
        for wrong in (0, 4, 6):
            with pytest.raises(SettingError, match="must be 5"):
                sink.write(wrong, np.zeros(1))
        sink.write(5, np.zeros(1))
        with pytest.raises(SettingError):
            sink.write(6, np.zeros((2, 2)))


@pytest.mark.parametrize("text", ["position,value\n0,1\n2,1\n", "position,value\n,1\n"])
def test_a_file_whose_positions_do_not_count_up(write, text):
    with pytest.raises(SourceError, match=r"do not count up|are not whole numbers from 0 on"):
        list(read_released(write("out.csv", text.encode())))
