"""Sinks that fail, and standard output: a clear error, and no part of a file left behind."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.fresh_process import printed_by
from tidegate.io import (
    KINDS,
    ClosedPipeError,
    SinkError,
    open_sink,
    read_metadata,
    read_released,
)


def released(path) -> list[float]:
    return [value for _, values in read_released(path) for value in values.tolist()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk(tmp_path, kind):
    path = tmp_path / f"out.{kind}"

    def work() -> None:
        with open_sink("/dev/full", format=kind) as sink:
            sink.write(0, np.random.default_rng(1).normal(0, 1e3, 100_000))

    with pytest.raises(SinkError, match="disk is full") as caught:
        work()
    assert caught.value.errno == errno.ENOSPC
    assert "/dev/full" in str(caught.value)
    assert not path.exists()
    assert not Path("/dev/full.meta.json").exists()


def test_a_full_disk_leaves_no_part_behind(tmp_path, monkeypatch):
    def full(descriptor, data) -> int:
        raise OSError(errno.ENOSPC, "x")

    for kind in ("parquet", "csv.zst"):
        sink = open_sink(tmp_path / f"out.{kind}")
        sink.write(0, np.zeros(10))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(SinkError, match="disk is full"):
                sink.close()
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_that_went_away(kind):
    reading, writing = os.pipe()
    sink = open_sink(f"/dev/fd/{writing}", format=kind)
    os.close(reading)
    with pytest.raises(ClosedPipeError, match="closed the pipe"), sink:
        sink.write(0, np.arange(10.0))
    os.close(writing)


def test_standard_output_of_a_process():
    program = (
        "import numpy, sys, tidegate.io\n"
        "print('before')\n"
        "with tidegate.io.open_sink(None, format=sys.argv[1], metadata={}) as sink:\n"
        "    sink.write(0, numpy.array([10.5, 12]))\n"
        "print('after')\n"
    )
    for kind, rows in (
        ("csv", "position,value\n0,10.5\n1,12\n"),
        ("jsonl", '{"position":0,"value":10.5}\n{"position":1,"value":12}\n'),
    ):
        assert printed_by(program, kind) == f"before\n{rows}after\n"
    program += "sys.stdout.flush()\n"
    end = program.replace("[10.5, 12]", "[1.0] * 1000000")
    process = subprocess.Popen(
        [sys.executable, "-c", end, "csv"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    _, errors = process.communicate()
    assert b"ClosedPipeError" in errors
    assert b"Exception ignored" not in errors


def test_parquet_through_a_pipe(tmp_path):
    program = (
        "import numpy, tidegate.io\n"
        "with tidegate.io.open_sink('-', format='parquet', metadata={'a': 1}) as sink:\n"
        "    sink.write(0, numpy.arange(5.0))\n"
    )
    path = tmp_path / "out.parquet"
    path.write_bytes(subprocess.check_output([sys.executable, "-c", program]))
    assert released(path) == [0, 1, 2, 3, 4]
    assert read_metadata(path) == {"a": 1}


def test_standard_output_without_a_descriptor(monkeypatch):
    class StandIn(io.TextIOWrapper):
        def fileno(self) -> int:
            raise io.UnsupportedOperation

    stand_in = StandIn(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", stand_in)
    with open_sink("-") as sink:
        sink.write(0, np.array([1.5]))
    assert stand_in.buffer.getvalue() == b"position,value\n0,1.5\n"


def test_a_place_that_cannot_be_written(tmp_path):
    with pytest.raises(SinkError, match="no such file"):
        open_sink(tmp_path / "nowhere" / "out.csv")
    (tmp_path / "out.csv").mkdir()
    with pytest.raises(SinkError, match="is a directory"):
        open_sink(tmp_path / "out.csv")


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "out.parquet"
    link.symlink_to(tmp_path / "real" / "data.parquet")
    with open_sink(link, metadata={"a": 1}) as sink:
        sink.write(0, np.array([1.0]))
    assert link.is_symlink()
    assert released(link) == [1.0]
