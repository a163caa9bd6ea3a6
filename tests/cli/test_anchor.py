"""The output beside a durable state: what can be completed, and what shows that noise was used."""

import gzip
import json
import shutil
from contextlib import contextmanager

import numpy as np
import pytest

from tests.faults import VALUES
from tidegate.durable import DurableRelease, StateError
from tidegate.io import open_sink

FORMATS = [("tops", "csv"), ("tops", "csv.gz"), ("tops", "parquet")]
every_format = pytest.mark.parametrize("undisturbed", FORMATS, ids=" ".join, indirect=True)


def sidecar(run):
    return run.output.with_name(run.output.name + ".meta.json")


@contextmanager
def rolled_back(begun, folder, first):
    """A run of the first values; in the end its state is restored from a backup of that moment."""
    run = begun.copy(folder / "run")
    run.go(VALUES[:first])
    shutil.copytree(run.state, folder / "backup")
    yield run
    shutil.rmtree(run.state)
    shutil.copytree(folder / "backup", run.state)


def cut_in_half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


CHANGES = {
    "no metadata": lambda run: sidecar(run).unlink(missing_ok=True),
    "no output": lambda run: run.output.unlink(),
    "neither": lambda run: (run.output.unlink(), sidecar(run).unlink(missing_ok=True)),
    "an empty output": lambda run: run.output.write_bytes(b""),
    "an empty output, no metadata": lambda run: (
        run.output.write_bytes(b""),
        sidecar(run).unlink(missing_ok=True),
    ),
    "damaged metadata": lambda run: sidecar(run).exists() and cut_in_half(sidecar(run)),
    "a count that is no number": lambda run: (
        sidecar(run).exists() and edit(sidecar(run), released="many")
    ),
    "a part of a killed run": lambda run: (
        run.output.with_name(f".{run.output.name}.partial").write_bytes(b"half"),
        sidecar(run).with_name(f".{sidecar(run).name}.partial").write_bytes(b"half"),
    ),
}


@every_format
def test_what_lacks_nothing_is_completed(undisturbed, shared_memory):
    _, reference = undisturbed
    for number, change in enumerate(CHANGES.values()):
        run = reference.copy(shared_memory / str(number))
        change(run)
        run.go()
        left = {name: data for name, data in run.left().items() if not name.endswith(".partial")}
        assert left == reference.left(), list(CHANGES)[number]


@every_format
def test_a_state_older_than_its_output_is_refused_by_what_is_left_of_it(undisturbed, shared_memory):
    begun, _ = undisturbed
    with rolled_back(begun, shared_memory, 1600) as run:
        run.go()
    for number, change in enumerate(("no metadata", "no output", None)):
        copy = run.copy(shared_memory / str(number))
        if change == "no output" and not sidecar(run).exists():
            continue  # inside Parquet: both are gone
        if change:
            CHANGES[change](copy)
        before = copy.left()
        with pytest.raises(StateError, match="older than its output"):
            copy.go()
        assert copy.left() == before


@pytest.mark.parametrize("undisturbed", FORMATS[:1], ids=" ".join, indirect=True)
def test_an_edit_does_not_hide_that_the_state_is_older(undisturbed, shared_memory):
    begun, _ = undisturbed
    with rolled_back(begun, shared_memory, 1600) as run:
        metadata = sidecar(run).read_bytes()
        run.go()
    sidecar(run).write_bytes(metadata)  # which is written when a threshold is chosen, or at the end
    lines = run.output.read_bytes().splitlines(keepends=True)
    lines[100] = b"99,12345\n"
    run.output.write_bytes(b"".join(lines))
    with pytest.raises(StateError, match="older than its output"):
        run.go()


@every_format
def test_a_threshold_that_left_is_not_chosen_again(undisturbed, shared_memory):
    """The hold-out is over and nothing is released yet: θ is all that the output tells."""
    begun, _ = undisturbed
    with rolled_back(begun, shared_memory, 800) as run:
        run.go(VALUES[:900])
        assert run.metadata()["threshold"] is not None
        assert run.metadata()["released"] == 0
    with pytest.raises(StateError, match="older than its output"):
        run.go(np.append(VALUES[:800], np.zeros(100, dtype=int)))


@every_format
def test_a_file_of_something_else_is_left_alone_and_costs_nothing(undisturbed, shared_memory):
    _, reference = undisturbed
    foreign = {}
    with open_sink(shared_memory / reference.output.name) as sink:
        sink.write(0, np.arange(50.0))
    foreign["other rows"] = (shared_memory / reference.output.name).read_bytes()
    if reference.output.suffix != ".csv":
        foreign["no rows"] = b"something else"
    if reference.output.suffix == ".gz":
        foreign["no rows, packed"] = gzip.compress(b"name,phone\nalice,555\n")
    for number, content in enumerate(foreign.values()):
        run = reference.copy(shared_memory / str(number))
        sidecar(run).unlink(missing_ok=True)
        run.output.write_bytes(content)
        with pytest.raises(StateError, match="not what was released") as caught:
            run.go()
        assert "--new-epoch" not in str(caught.value)
        assert "alice" not in str(caught.value)
        assert run.output.read_bytes() == content
        assert run.charges() == reference.charges()


@pytest.mark.parametrize("undisturbed", FORMATS[1:2], ids=" ".join, indirect=True)
def test_half_a_compressed_file_of_ours_is_written_anew(undisturbed, shared_memory):
    _, reference = undisturbed
    run = reference.copy(shared_memory / "run")
    cut_in_half(run.output)
    run.go()
    assert run.left() == reference.left()


@pytest.mark.parametrize("undisturbed", FORMATS[:1], ids=" ".join, indirect=True)
def test_facts_after_a_failed_push_are_those_before_it(undisturbed, shared_memory, monkeypatch):
    begun, _ = undisturbed
    run = begun.copy(shared_memory / "run")
    with DurableRelease.open(run.state, run.pipeline) as release:
        release.push(VALUES[:800])
        before = release.facts()
        with monkeypatch.context() as patch:
            patch.setattr(release._committer, "commit", lambda released: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                release.push(VALUES[800:2000])
        assert release.facts() == before
        assert (release.position, release.phases) == (0, [])
        assert before["threshold"] is None
