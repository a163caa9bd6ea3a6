"""Power cuts: whatever part of what was not synced is lost, nothing that had left is unknown."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import typer

from tests.depth import in_turn
from tests.durable.moments import scratch
from tests.durable.power import recorded, traceable
from tests.durable.power_disks import different
from tests.durable.power_driver import NEW, OLD, PIPELINE, REFINED, SETTINGS, VALUES
from tests.durable.sqlite_view import FRAME_HEADER, HEADER, read_alike, whole_commits
from tidegate.cli import release as command
from tidegate.durable import DurableRelease, StateError
from tidegate.ledger import Ledger

DRIVER = Path(__file__).with_name("power_driver.py")
WHY_NOT = traceable()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


@pytest.fixture
def place():
    with scratch() as folder:
        yield folder


def released(run):
    return np.concatenate([np.empty(0), *(values for _, values in run.replay())])


def total(folder):
    with Ledger.open(folder / "ledger.jsonl", read_only=True) as ledger:
        return ledger.total().epsilon


def disks(place, scenario):
    """Every different disk that a cut of a scenario leaves, as a folder; and what had left."""
    shutil.copytree(place / "base", place / "run")
    steps = recorded([str(DRIVER), str(place / "run"), scenario], place / "run")
    shutil.rmtree(place / "run")
    shutil.copytree(place / "base", place / "run")  # as it was before: the steps are played on it
    for disk, left in different(place / "run", steps):
        disk.write(place / "run", place / "cut")
        yield place / "cut", left


def test_what_sqlite_reads_is_what_counts(place):
    """Of every selection of pages and frames: a reader finds what `read_alike` says."""
    with closing(sqlite3.connect(place / "one.db", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE made (number INTEGER, text TEXT)")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for number in range(4):
            database.execute("INSERT INTO made VALUES (?, ?)", (number, "x" * 3000))
        main, log = ((place / f"one.db{end}").read_bytes() for end in ("", "-wal"))
    page, commits = whole_commits(log)
    assert (page, len(commits)) == (4096, 4)
    size, kinds = page + FRAME_HEADER, set()
    frames = range(HEADER, len(log), size)
    for lost in [None, 0, *frames, *(frame + size // 2 for frame in frames)]:
        damaged = bytearray(log)
        if lost is not None:
            damaged[lost : lost + 100] = bytes(100)
        (place / "two.db").write_bytes(main)
        (place / "two.db-wal").write_bytes(damaged)
        with closing(sqlite3.connect(place / "two.db")) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        read = read_alike(main, bytes(damaged))
        assert (place / "two.db").read_bytes() == read[1:]
        kinds.add(read)
    assert len(kinds) == 5


def undisturbed(place, key, pipeline=PIPELINE):
    shutil.copytree(place / "base", place / "undisturbed")
    with DurableRelease.open(place / "undisturbed" / "state", pipeline, key=key) as run:
        run.push(VALUES[run.seen :])
        return released(run)


def test_two_runs_and_another_key(place):
    DurableRelease.open(place / "base" / "state", PIPELINE, key=OLD).close()
    wanted = undisturbed(place, OLD)
    count, keys = 0, set()
    for folder, left in disks(place, "two runs"):
        for key in (OLD, NEW):
            try:
                run = DurableRelease.open(folder / "state", PIPELINE, key=key)
            except StateError:
                assert key == OLD
                continue
            with run:
                had = b"".join(left)
                assert released(run).tobytes().startswith(had)
                assert wanted.tobytes().startswith(released(run).tobytes())
                assert run.recogniser().push(run.pipeline.lattice.units(VALUES[: run.seen]))
                run.push(VALUES[run.seen :])
                assert released(run).tobytes() == wanted.tobytes()
            keys.add(key)
            break
        assert total(folder / "state") == 1
        count += 1
    assert keys == {OLD, NEW}
    assert count > 15


def test_a_first_run(place):
    """Also the folders above it are new."""
    (place / "base").mkdir()
    count = 0
    for folder, left in disks(place, "first run"):
        state = folder / "deep" / "state"
        with DurableRelease.open(state, PIPELINE, cap=1, source="s") as run:
            assert released(run).tobytes().startswith(b"".join(left))
            run.push(VALUES[run.seen :])
        assert total(state) == 1
        count += 1
    assert count > 30


def test_a_warm_up_that_is_released(place):
    DurableRelease.open(place / "base" / "state", REFINED).close()
    wanted = undisturbed(place, None, REFINED)
    count = 0
    for folder, left in disks(place, "warm-up"):
        with DurableRelease.open(folder / "state", REFINED) as run:
            assert released(run).tobytes().startswith(b"".join(left))
            run.push(VALUES[run.seen :])
            assert released(run).tobytes() == wanted.tobytes()
        assert total(folder / "state") == 1
        count += 1
    assert count > 10


def test_a_new_epoch(place):
    """What had left of the new epoch stays known; the old epoch stays counted."""
    with DurableRelease.open(place / "base" / "state", PIPELINE) as run:
        run.push(VALUES[:20])
        old = run.epoch
    wanted = undisturbed(place, None)
    kinds = []
    for folder, left in disks(place, "new epoch"):
        with DurableRelease.open(folder / "state", PIPELINE) as run:
            kinds.append(run.epoch == old)
            had = released(run).tobytes()
            assert had.startswith(b"".join(left)) or (run.epoch == old and not left)
            run.push(VALUES[run.seen :])
            assert (released(run).tobytes() == wanted.tobytes()) == (run.epoch == old)
        assert total(folder / "state") in ((1, 2) if run.epoch == old else (2,))
    assert {True, False} == set(kinds)
    assert len(kinds) > 10


@pytest.mark.parametrize("extension", in_turn(["csv", "csv.gz", "jsonl.zst", "parquet"], 1))
def test_an_output(place, extension):
    """The same command again completes the file, bit for bit, whatever the cut left of it."""
    rows = "".join(f"{value}\n" for value in VALUES)
    (place / "in.csv").write_text("value\n" + rows)
    DurableRelease.open(place / "base" / "state", PIPELINE).close()

    def again(folder):
        output = folder / f"out.{extension}"
        command.release(
            source=str(place / "in.csv"),
            **SETTINGS,
            output=str(output),
            state=folder / "state",
            quiet=True,
        )
        beside = Path(f"{output}.meta.json")  # Parquet carries its facts in the file
        return output.read_bytes(), beside.read_bytes() if beside.exists() else None

    shutil.copytree(place / "base", place / "undisturbed")
    wanted = again(place / "undisturbed")
    count = 0
    for folder, _ in disks(place, extension):
        assert again(folder) == wanted
        assert total(folder / "state") == 1
        count += 1
    assert count > 10


def test_a_hole_in_an_output_does_not_hide_that_the_state_is_older(place, capsys):
    """A state that was rolled back, beside a newer output that lost its beginning in a cut."""
    (place / "in.csv").write_text("value\n" + "".join(f"{value}\n" for value in VALUES))
    output, state = place / "out.csv", place / "state"
    options = {**SETTINGS, "output": str(output), "quiet": True}
    with DurableRelease.open(state, PIPELINE) as run:
        run.push(VALUES[:20])
    shutil.copytree(state, place / "older")
    command.release(source=str(place / "in.csv"), **options, state=state)
    whole = output.read_bytes()
    output.write_bytes(bytes(60) + whole[60:])
    facts = Path(f"{output}.meta.json")
    facts.write_text(facts.read_text().replace('"released": 34', '"released": 8'))  # not yet told
    with pytest.raises(typer.Exit) as refused:
        command.release(source=str(place / "in.csv"), **options, state=place / "older")
    assert refused.value.exit_code == 3
    assert "older than its output" in capsys.readouterr().err
    command.release(source=str(place / "in.csv"), **options, state=state)  # the newest one mends it
    assert output.read_bytes() == whole
