"""Pipes and growing files: rows are given as soon as they are complete, and not before."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.errors import InputError, SettingError
from tidegate.io import SourceError, input_file_or_pipe, open_source

# Far longer than any of this takes: on a loaded machine slowness is no failure.
PATIENCE = 240.0


class Collector(threading.Thread):
    """Reads in the background and remembers what came, and when."""

    def __init__(self, source) -> None:
        super().__init__(daemon=True)
        self.source, self.values, self.times, self.error = source, [], [], None
        self.start()

    def run(self) -> None:
        try:
            for batch in self.source.batches():
                self.values += batch.values.tolist()
                self.times.append(time.perf_counter())
        except Exception as error:  # noqa: BLE001  # handed to the test
            self.error = error

    def wait_for(self, condition: Callable[[], bool]) -> None:
        end = time.perf_counter() + PATIENCE
        while not condition():
            assert time.perf_counter() < end, "did not come"
            assert self.is_alive() or condition(), self.error
            time.sleep(0.001)


@pytest.fixture
def pipe():
    """Its name, and its writing end: an object, so that no number is closed that is another's."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", 0), os.fdopen(writing, "wb", 0) as end:
        yield f"/dev/fd/{reading}", end


@pytest.mark.parametrize(
    ("kind", "rows"),
    [("csv", [b"1\n", b"2\n", b"3.5\n"]), ("jsonl", [b'{"v":1}\n', b'{"v":2}\n', b'{"v":3.5}\n'])],
)
def test_a_pipe_gives_each_row_at_once(pipe, kind, rows):
    path, writing = pipe
    column = "v" if kind == "jsonl" else None
    collector = Collector(open_source(path, format=kind, column=column))
    for count, row in enumerate(rows, 1):  # each is delivered while the pipe stays open
        writing.write(row)
        collector.wait_for(lambda count=count: len(collector.values) == count)
    writing.close()
    collector.join(PATIENCE)
    assert collector.values == [1, 2, 3.5]
    assert collector.error is None


def test_a_row_that_comes_byte_by_byte_is_one_row(pipe):
    path, writing = pipe
    collector = Collector(open_source(path, format="csv"))
    for byte in b"\xef\xbb\xbfvalue\r\n12\r\n3":
        writing.write(bytes([byte]))
        time.sleep(0.002)
    collector.wait_for(lambda: collector.values == [12])
    writing.write(b"4")
    time.sleep(0.05)
    assert collector.values == [12]
    writing.write(b"\n")
    collector.wait_for(lambda: collector.values == [12, 34])


def test_a_blank_line_is_a_row_as_soon_as_it_is_there(pipe):
    # Catches: missing values that are held back until another comes: their arrival would tell.
    path, writing = pipe
    collector = Collector(open_source(path, format="csv"))
    writing.write(b"1\n\n\n")
    collector.wait_for(lambda: len(collector.values) == 3)
    writing.write(b"4\n\n")
    collector.wait_for(lambda: len(collector.values) == 5)
    writing.close()
    collector.join(PATIENCE)
    assert len(collector.values) == 5
    assert collector.values[3] == 4


def test_rows_before_a_bad_one_come_through_a_pipe(pipe):
    path, writing = pipe
    collector = Collector(open_source(path, format="csv"))
    writing.write(b"1\n2\nsecret\n4\n")
    collector.join(PATIENCE)
    assert collector.values == [1, 2]
    assert isinstance(collector.error, InputError)
    assert "row 2" in str(collector.error)
    assert "secret" not in str(collector.error)


def test_a_wrong_column_of_a_pipe_is_known_with_the_first_row(pipe):
    path, writing = pipe
    with open_source(path, format="csv", column="nope") as source:
        writing.write(b"a,b\n")
        with pytest.raises(SettingError, match="no 'nope'; the first line"):
            next(source.batches())


def test_standard_input_of_a_process():
    program = (
        "from tidegate.io import open_source\n"
        "for batch in open_source('-').batches(): print(batch.values.tolist(), flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for row in (b"1\n", b"2\n"):
            process.stdin.write(row)
            process.stdin.flush()
            assert process.stdout.readline().strip() == b"[%s.0]" % row.strip()
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def test_a_redirected_file_knows_how_far_it_is(tmp_path):
    path = tmp_path / "s.csv"
    path.write_bytes(b"1\n" * 1_000_000)
    with open_source(path) as source:
        batches = source.batches()
        next(batches)
        assert 0.4 < source.fraction() < 0.6
        assert sum(len(batch) for batch in batches) > 400_000
        assert source.fraction() == 1.0
        assert source.rows is None


@pytest.mark.parametrize(("name", "row"), [("s.csv", "%d\n"), ("s.jsonl", '{"v": %d}\n')])
def test_following_a_file_that_grows(tmp_path, name, row):
    path = tmp_path / name
    path.write_text(row % 1)
    column = "v" if name == "s.jsonl" else None
    source = open_source(path, column=column, follow=True)
    assert source.fraction() is None
    collector = Collector(source)
    collector.wait_for(lambda: collector.values == [1])
    with path.open("a") as file:
        for value in (23, 45):
            text = row % value
            file.write(text[:-3])
            file.flush()
            time.sleep(0.06)
            assert len(collector.values) == (1 if value == 23 else 2)  # an unfinished line waits
            file.write(text[-3:])
            file.flush()
            collector.wait_for(lambda value=value: collector.values[-1] == value)
        file.write((row % 6)[:-1])
    time.sleep(0.05)
    source.close()
    collector.join(PATIENCE)
    assert not collector.is_alive()
    assert collector.error is None
    assert collector.values == [1, 23, 45]


def test_following_an_empty_file_from_its_header_on(tmp_path):
    path = tmp_path / "s.csv"
    path.touch()
    source = open_source(path, follow=True, column="load")
    collector = Collector(source)
    path.write_text("time,load\n1,2\n")
    collector.wait_for(lambda: collector.values == [2])
    source.close()
    collector.join(PATIENCE)


@pytest.mark.parametrize("what", ["shrank", "vanished", "replaced"])
def test_a_followed_file_that_loses_rows_is_an_error(tmp_path, what):
    path = tmp_path / "s.csv"
    path.write_text("1\n2\n")
    collector = Collector(open_source(path, follow=True))
    collector.wait_for(lambda: collector.values == [1, 2])
    if what == "shrank":
        path.write_text("")
    elif what == "vanished":
        path.rename(tmp_path / "old")
    else:  # in one step: between a rename and a write the file would have vanished
        (tmp_path / "new").write_text("3\n")
        (tmp_path / "new").replace(path)
    collector.join(PATIENCE)
    assert isinstance(collector.error, SourceError)
    assert what in str(collector.error)
    assert "after 2 rows" in str(collector.error)


@pytest.mark.parametrize("name", ["s.parquet", "s.csv.gz", "-"])
def test_only_plain_files_are_followed(tmp_path, name):
    path = "-" if name == "-" else tmp_path / name
    if name != "-":
        path.touch()
    with pytest.raises(SettingError, match="follow"):
        open_source(path, follow=True)


class ClosingAt:
    """A signal's handler that meets the reading thread at its line `number`, locks held or not."""

    PLACES = (input_file_or_pipe.__file__, threading.__file__)

    def __init__(self, source, number):
        self.source, self.left, self.lines = source, number, set()

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename not in self.PLACES:
            return None
        if event == "line":
            self.lines.add((frame.f_code.co_filename, frame.f_lineno))
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                self.source.close()
        return self


def test_a_signal_between_any_two_lines_ends_a_followed_file(tmp_path, monkeypatch):
    monkeypatch.setattr(input_file_or_pipe, "_FIRST_WAIT", 1e-6)
    monkeypatch.setattr(input_file_or_pipe, "_LONGEST_WAIT", 1e-6)
    path = tmp_path / "s.csv"
    path.write_text("1\n")
    descriptors = len(list(Path("/dev/fd").iterdir()))
    lines = set()
    for number in range(1, 80):  # two rounds of looking at the file, at least
        with open_source(path, follow=True) as source:
            batches = source.batches()
            assert next(batches).values.tolist() == [1]
            closing, tracing = ClosingAt(source, number), sys.gettrace()
            sys.settrace(closing)
            try:
                assert list(batches) == []
            finally:
                sys.settrace(tracing)
        lines |= closing.lines
    assert len(lines) > 15
    assert len(list(Path("/dev/fd").iterdir())) == descriptors


def test_carriage_returns_in_the_first_piece_of_a_pipe_are_no_line_ends_yet(pipe):
    # Caught: a first piece with two of them and no newline was refused as a file of old Macs.
    path, writing = pipe
    collector = Collector(open_source(path, format="csv", column="load"))
    writing.write(b"load,a\rb\rc")
    time.sleep(0.05)
    writing.write(b"d\r\n12,x\r\n")
    collector.wait_for(lambda: collector.values == [12])
    assert collector.error is None


def test_a_pipe_of_one_line_with_carriage_returns_is_refused_at_its_end(pipe):
    path, writing = pipe
    collector = Collector(open_source(path, format="csv", column="load"))
    for byte in b"load\r1\r2\r":
        writing.write(bytes([byte]))
    writing.close()
    collector.join(PATIENCE)
    assert "line ends of old Macs" in str(collector.error)
