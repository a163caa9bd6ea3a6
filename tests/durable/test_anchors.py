"""A spent cap stays spent: every way into a folder compares the ledger with what was seen of it."""

import json
import os
import shutil
from fractions import Fraction

import numpy as np
import pytest
from typer.testing import CliRunner

import tidegate as tg
from tests.durable.moments import image
from tidegate.cli.app import app
from tidegate.durable import DurableRelease, StateError
from tidegate.durable.folder_lock import anchor_kept_in_folder
from tidegate.errors import TidegateError
from tidegate.ledger import CapExceeded, Ledger

PIPELINE = tg.tops(epsilon=1, bound=100, resolution=1, holdout=4, horizon=64, fanout=4, skipped=1)
VALUES = np.arange(40)
KEY, OTHER = bytes(range(32)), bytes(range(1, 33))


@pytest.fixture
def folder(tmp_path):
    """A release whose cap is spent, its state sealed."""
    with DurableRelease.open(tmp_path / "s", PIPELINE, key=KEY, cap=1) as run:
        run.push(VALUES)
    return tmp_path / "s"


def cut(folder, lines):
    """The ledger with so many lines at its end cut off; None: deleted."""
    ledger = folder / "ledger.jsonl"
    if lines is None:
        ledger.unlink()
    else:
        kept = ledger.read_bytes().splitlines(keepends=True)[:-lines]
        ledger.write_bytes(b"".join(kept))


def no_lock(folder):
    (folder / "lock").unlink()


def no_state(folder):
    for path in folder.glob("state.sqlite*"):
        path.unlink()


def damaged_state(folder):
    path = folder / "state.sqlite"
    path.write_bytes(b"\0" * path.stat().st_size)


def spent(folder):
    with Ledger.open(folder / "ledger.jsonl", read_only=True) as ledger:
        return ledger.total().epsilon


@pytest.mark.parametrize("lines", [1, 2, 3, None])
@pytest.mark.parametrize("key", [KEY, OTHER, None], ids=["key", "other key", "no key"])
@pytest.mark.parametrize("loss", [None, no_lock, no_state, damaged_state])
def test_a_new_epoch_does_not_spend_a_cap_again(folder, lines, key, loss):
    """With lines of the ledger cut off, whatever else is lost and whoever has which key."""
    if loss is not None:
        loss(folder)
    cut(folder, lines)
    before = sorted(path.name for path in folder.iterdir() if path.name != "lock")
    with pytest.raises(TidegateError, match=r"ledger.*(put|back)"):
        DurableRelease.open(folder, PIPELINE, key=key, new_epoch=True)
    assert sorted(path.name for path in folder.iterdir() if path.name != "lock") == before


@pytest.mark.parametrize("lines", [1, None])
def test_nothing_opens_beside_a_ledger_that_was_cut(folder, lines):
    cut(folder, lines)
    for open_it in (
        lambda: DurableRelease.open(folder, PIPELINE, key=KEY),
        lambda: DurableRelease.existing(folder, key=KEY),
    ):
        with pytest.raises(TidegateError, match=r"ledger.*(put|back)"):
            open_it()


def test_state_and_ledger_rolled_back_together_are_noticed_by_the_lock(tmp_path):
    """A backup of both, put back without the lock file beside them."""
    with DurableRelease.open(tmp_path / "s", PIPELINE) as run:
        run.push(VALUES[:2])
    shutil.copytree(tmp_path / "s", tmp_path / "backup")
    with DurableRelease.open(tmp_path / "s", PIPELINE) as run:
        run.push(VALUES[2:])  # the stream is charged
    for path in (tmp_path / "backup").iterdir():
        if path.name != "lock":
            shutil.copy(path, tmp_path / "s" / path.name)
    with pytest.raises(StateError, match="older than its last commit"):
        DurableRelease.open(tmp_path / "s", PIPELINE)
    with pytest.raises(TidegateError, match="put the newer one"):
        DurableRelease.open(tmp_path / "s", PIPELINE, new_epoch=True)


# -- commits ---------------------------------------------------------------------------------------


def without_log(folder):
    """A state whose `-wal` file was lost after a kill: SQLite opens it without a word."""
    (folder / "state.sqlite-wal").unlink()


def of_a_backup(folder):
    for path in folder.glob("state.sqlite*"):
        path.unlink()
    shutil.copy(folder.with_name("backup") / "state.sqlite", folder)


@pytest.mark.parametrize(
    ("later", "loss"),
    [
        (lambda run: run.push(VALUES[10:11]), without_log),
        (lambda run: run.push(VALUES[10:11]), of_a_backup),
        (lambda run: run.change_key(OTHER), of_a_backup),
        (lambda run: run.unseal(), of_a_backup),
        (lambda run: run.erase(), of_a_backup),
    ],
    ids=["push, no log", "push", "rekey", "unseal", "erase"],
)
def test_a_state_that_was_rolled_back_is_refused(tmp_path, loss, later):
    """Nothing that left this process tells: the lock file must."""
    with DurableRelease.open(tmp_path / "s", PIPELINE, key=KEY, cap=2) as run:
        run.push(VALUES[:10])
    image(tmp_path / "s", tmp_path / "backup")
    with DurableRelease.open(tmp_path / "s", PIPELINE, key=KEY) as run:
        later(run)
        image(tmp_path / "s", tmp_path / "killed")
    loss(tmp_path / "killed")
    with pytest.raises(StateError, match="older than its last commit"):
        DurableRelease.open(tmp_path / "killed", PIPELINE, key=KEY)
    with DurableRelease.open(tmp_path / "killed", PIPELINE, key=KEY, new_epoch=True) as run:
        run.push(VALUES[:10])
    with DurableRelease.open(tmp_path / "killed", PIPELINE, key=KEY) as run:
        assert run.seen == 10


def test_a_charge_that_is_interrupted_leaves_an_anchor_that_fits(tmp_path, monkeypatch):
    """The entry is on the disk, and memory does not know: the anchor is of the entry before."""

    def interrupted(*_):
        raise KeyboardInterrupt

    run = DurableRelease.open(tmp_path / "s", PIPELINE, cap=2)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "_take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.push(VALUES)
    run.close()
    with DurableRelease.open(tmp_path / "s", PIPELINE) as run:
        run.push(VALUES)
        assert run.seen == VALUES.size
    assert spent(tmp_path / "s") == 1


def test_a_commit_that_the_lock_file_has_not_seen_is_continued(tmp_path):
    """A power cut keeps the commit, which is synced, and may lose the note of it."""
    with DurableRelease.open(tmp_path / "s", PIPELINE) as run:
        run.push(VALUES[:10])
        lock = (tmp_path / "s" / "lock").read_bytes()
        run.push(VALUES[10:11])
    for torn in (lock, lock[:8200], b""):
        (tmp_path / "s" / "lock").write_bytes(torn)
        with DurableRelease.open(tmp_path / "s", PIPELINE) as run:
            assert run.seen == 11


def test_a_branch_of_the_state_is_refused(tmp_path):
    """As many commits as the lock file knows, but others: a copy that went on by itself."""
    with DurableRelease.open(tmp_path / "s", PIPELINE) as run:
        run.push(VALUES[:10])
    shutil.copytree(tmp_path / "s", tmp_path / "copy")
    for name, value in ("s", 0), ("copy", 100):
        with DurableRelease.open(tmp_path / name, PIPELINE) as run:
            run.push([value] * 30)
    shutil.copy(tmp_path / "copy" / "state.sqlite", tmp_path / "s")
    with pytest.raises(StateError, match="older than its last commit"):
        DurableRelease.open(tmp_path / "s", PIPELINE)


def test_what_cannot_be_checked_is_written_into_the_ledger(folder):
    """State and lock lost, the ledger left: nothing can tell whether all of it is left."""
    no_state(folder)
    no_lock(folder)
    with pytest.raises(CapExceeded):
        DurableRelease.open(folder, PIPELINE, new_epoch=True)
    with Ledger.open(folder / "ledger.jsonl") as ledger:
        ledger.set_cap(2)
    with DurableRelease.open(folder, PIPELINE, new_epoch=True) as run:
        run.push(VALUES)
    assert spent(folder) == 2
    with Ledger.open(folder / "ledger.jsonl", read_only=True) as ledger:
        notes = [entry.note for entry in ledger.entries if entry.note]
    assert len(notes) == 1
    assert "could not be checked" in notes[0]


def test_a_new_epoch_needs_no_key_of_the_old_one(folder):
    with Ledger.open(folder / "ledger.jsonl") as ledger:
        ledger.set_cap(2)
    with DurableRelease.open(folder, PIPELINE, key=OTHER, new_epoch=True) as run:
        run.push(VALUES)
    assert spent(folder) == 2
    with pytest.raises(StateError, match="key"):
        DurableRelease.open(folder, PIPELINE, key=KEY)


def test_the_charge_of_a_shared_ledger_goes_to_the_source_of_the_state(tmp_path):
    """Two states, one ledger (a link): the newest charge in it is the other one's."""
    for name in "ab":
        (tmp_path / name).mkdir(mode=0o700)
        (tmp_path / name / "ledger.jsonl").symlink_to(tmp_path / "shared.jsonl")
        DurableRelease.open(tmp_path / name, PIPELINE).close()
    for name in "ab":
        with DurableRelease.open(tmp_path / name, PIPELINE) as run:
            run.push(VALUES)
    with DurableRelease.open(tmp_path / "a", PIPELINE, new_epoch=True) as run:
        assert run.source == "a"
        run.push(VALUES)
    with Ledger.open(tmp_path / "shared.jsonl", read_only=True) as ledger:
        assert [ledger.total(name).epsilon for name in "ab"] == [2, 1]
    no_state(tmp_path / "a")
    with pytest.raises(StateError, match=r"several sources \(a, b\)"):
        DurableRelease.open(tmp_path / "a", PIPELINE, new_epoch=True)


def test_a_renamed_source_is_refused_before_anything_was_charged(tmp_path):
    DurableRelease.open(tmp_path / "s", PIPELINE, source="meters").close()
    for new_epoch in (False, True):
        with pytest.raises(StateError, match="'meters'"):
            DurableRelease.open(tmp_path / "s", PIPELINE, source="other", new_epoch=new_epoch)


def test_another_source_written_into_a_sealed_state_is_noticed(folder):
    import sqlite3

    with sqlite3.connect(folder / "state.sqlite") as database:
        database.execute("UPDATE facts SET value = ? WHERE name = 'source'", (b"fresh",))
    database.close()
    with pytest.raises(StateError, match="tampered"):
        DurableRelease.open(folder, PIPELINE, key=KEY)


@pytest.mark.parametrize("options", [[], ["--set-cap", "5"], ["--json"]])
def test_the_ledger_command_compares_too(folder, options):
    cut(folder, 1)
    before = (folder / "ledger.jsonl").read_bytes()
    result = CliRunner().invoke(app, ["ledger", str(folder), *options])
    assert result.exit_code == 3
    assert "cut short or rolled back" in result.output
    assert (folder / "ledger.jsonl").read_bytes() == before


def test_a_cap_that_was_set_is_remembered_beside_the_ledger(folder):
    assert CliRunner().invoke(app, ["ledger", str(folder), "--set-cap", "1/2"]).exit_code == 0
    cut(folder, 1)  # back to the larger cap
    with pytest.raises(TidegateError, match="put the newer one"):
        DurableRelease.open(folder, PIPELINE, key=KEY)


def test_the_anchor_survives_a_torn_write(folder):
    """Two places in turn: what is being written is never the only one."""
    newest = anchor_kept_in_folder(folder)
    with Ledger.open(folder / "ledger.jsonl", read_only=True) as ledger:
        assert newest == (ledger.count, ledger.head)
    content = (folder / "lock").read_bytes()
    lost = []
    for start in range(0, len(content), 512):
        torn = content[:start] + os.urandom(512) + content[start + 512 :]
        (folder / "lock").write_bytes(torn)
        lost.append(anchor_kept_in_folder(folder) != newest)
        assert anchor_kept_in_folder(folder) is not None
    assert sum(lost) == 1


def test_a_charge_is_anchored_before_its_values_leave(tmp_path):
    with DurableRelease.open(tmp_path / "s", PIPELINE) as run:
        run.push(VALUES)
        with Ledger.open(tmp_path / "s" / "ledger.jsonl", read_only=True) as ledger:
            assert anchor_kept_in_folder(tmp_path / "s") == (ledger.count, ledger.head)
            assert ledger.total().epsilon == Fraction(1)
    assert (
        json.loads((tmp_path / "s" / "ledger.jsonl").read_text().splitlines()[0])["sequence"] == 1
    )
