"""Without durable state: what a run leaves when it does not come to the end of its input."""

import os
import signal
from contextlib import nullcontext

import numpy as np
import pytest

from tests.faults import PIECE, PIPELINES, VALUES, Disk, Pieces, failing_disk
from tidegate._context_managers import uninterrupted
from tidegate.cli.exit_codes_and_signals import stopping_on_signal
from tidegate.durable import transfer
from tidegate.errors import InputError
from tidegate.io import KINDS, SinkError, open_sink, read_metadata, read_released
from tidegate.run.release import Release


def rows(path):
    return sum(values.size for _, values in read_released(path))


def go(path, source, pipeline="tops"):
    with stopping_on_signal(None):
        transfer(source, PIPELINES[pipeline].start(), path)


class Broken(Pieces):
    """An input whose sixth piece cannot be read."""

    def batches(self):
        for number, batch in enumerate(super().batches()):
            if number == 5:
                raise InputError("row 2000 is not a number")
            yield batch


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_says_whether_it_is_complete(shared_memory, kind):
    path = shared_memory / f"out.{kind}"
    go(path, Pieces())
    assert read_metadata(path)["complete"] is True
    with pytest.raises(InputError):
        go(path, Broken())
    facts = read_metadata(path)
    assert facts["complete"] is False
    assert facts["released"] == rows(path) == 5 * PIECE - 900


@pytest.mark.parametrize(("pipeline", "kind"), [("tops", "csv.gz"), ("adaptive", "jsonl")])
def test_a_push_that_fails_half_way_leaves_no_trace(shared_memory, monkeypatch, pipeline, kind):
    """Its threshold was chosen in memory, and its values were not handed out."""
    path, push, calls = shared_memory / f"out.{kind}", Release.push_rows, []

    def failing(self, values, *more):
        calls.append(push(self, values, *more))
        if len(calls) == 7:
            raise MemoryError
        return calls[-1]

    monkeypatch.setattr(Release, "push_rows", failing)
    with pytest.raises(MemoryError):
        go(path, Pieces(), pipeline)
    facts = read_metadata(path)
    assert facts["released"] == rows(path) == 6 * PIECE - 900
    assert all(phase["start"] <= facts["released"] for phase in facts["phases"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_inside_a_write_tears_nothing(shared_memory, kind):
    """It waits until the rows are written; the file is then closed as it should be."""
    path = shared_memory / f"out.{kind}"

    class Signalled(Disk):
        def _failing(self, name, real, place, *more):
            os.kill(os.getpid(), signal.SIGTERM)
            return real(place, *more)

    with failing_disk(Signalled(shared_memory, 4)) as disk, pytest.raises(KeyboardInterrupt):
        go(path, Pieces())
    assert disk.met
    facts = read_metadata(path)
    assert facts["released"] == rows(path)
    assert facts["complete"] == (facts["released"] == VALUES.size - 900)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sink_whose_write_was_cut_short_is_not_completed(tmp_path, monkeypatch, kind):
    """A compressor that took a piece and could not hand it on would put its rows in twice."""
    path = tmp_path / f"out.{kind}"
    values = np.zeros((1 << 20) + 1000 if kind == "parquet" else 1 << 18)
    sink = open_sink(path)
    sink.write(0, values[:1000])
    with failing_disk(Disk(None, 0, "torn")) as disk, pytest.raises(SinkError):
        sink.write(1000, values[1000:])
    assert disk.met
    if kind in ("csv", "jsonl"):  # of plain text, whole rows stay
        sink.close()
        assert rows(path) >= 1000
    else:
        with pytest.raises(SinkError, match="cut short") if "." in kind else nullcontext():
            sink.close()
        assert list(tmp_path.iterdir()) == []


def test_handlers_that_are_not_of_python_stay(monkeypatch):
    # Caught: where a program that embeds Python handles signals, every write ended in a TypeError.
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    with uninterrupted():
        pass


def test_signals_that_waited_arrive_once():
    before, reached = signal.getsignal(signal.SIGTERM), []

    def work():
        with stopping_on_signal(None):
            with uninterrupted():
                os.kill(os.getpid(), signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGINT)
                reached.append("the end of the block")
            reached.append("too far")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["the end of the block"]
    assert signal.getsignal(signal.SIGTERM) == before
