"""One folder: locked, versioned, private, and honest about damage."""

import os
import re
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest

import tidegate as tg
from tidegate.durable import DurableRelease, StateError
from tidegate.errors import MissingError, TidegateError

PIPELINE = tg.tops(epsilon=1, bound=100, resolution=1, holdout=20, horizon=256, fanout=4, skipped=1)
VALUES = np.random.default_rng(1).integers(0, 100, 3000)


@pytest.fixture
def folder(tmp_path):
    with DurableRelease.open(tmp_path / "state", PIPELINE) as run:
        run.push(VALUES)
    return tmp_path / "state"


def opened(folder, **options):
    with DurableRelease.open(folder, PIPELINE, **options) as run:
        return run.position, sum(values.size for _, values in run.replay())


def test_a_second_process_is_kept_out(folder):
    script = (
        "import sys\n"
        "from tidegate.durable.state_stores import FolderStore\n"
        "from pathlib import Path\n"
        "store = FolderStore(Path(sys.argv[1]))\n"
        "store.open(create=False)\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
        "store.close()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "open\n"
        before = sorted(path.name for path in folder.iterdir())
        for new_epoch in (False, True):
            with pytest.raises(StateError, match="another process"):
                DurableRelease.open(folder, PIPELINE, new_epoch=new_epoch)
        assert sorted(path.name for path in folder.iterdir()) == before
        other.stdin.close()
        assert other.wait(240) == 0
    assert opened(folder) == (2980, 2980)


def test_a_second_release_in_this_process_is_kept_out(folder):
    with (
        DurableRelease.open(folder, PIPELINE),
        pytest.raises(StateError, match="another process"),
    ):
        DurableRelease.open(folder, PIPELINE)


def test_the_lock_of_a_killed_process_is_gone(tmp_path):
    script = (
        "import os, sys\n"
        "from tidegate.durable.state_stores import FolderStore\n"
        "from pathlib import Path\n"
        "FolderStore(Path(sys.argv[1])).open(create=True)\n"
        "os._exit(9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path / "state")], check=False)
    assert killed.returncode == 9
    DurableRelease.open(tmp_path / "state", PIPELINE).close()


def test_only_the_owner_may_look(tmp_path):
    before = os.umask(0)
    try:
        with DurableRelease.open(tmp_path / "state", PIPELINE) as run:
            run.push(VALUES)
            files = list((tmp_path / "state").iterdir())
            assert len(files) >= 4
            for path in files:
                assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


def test_another_format_is_refused(folder):
    with closing(sqlite3.connect(folder / "state.sqlite")) as database:
        database.execute("PRAGMA user_version=99")
    with pytest.raises(StateError, match="format 99"):
        opened(folder)


@pytest.mark.parametrize("place", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9])
def test_damage_anywhere_is_refused_or_harmless(folder, place):
    path = folder / "state.sqlite"
    content = bytearray(path.read_bytes())
    start = int(place * len(content)) // 512 * 512
    content[start : start + 512] = os.urandom(len(content[start : start + 512]))
    path.write_bytes(content)
    try:
        found = opened(folder)
    except TidegateError as error:  # ours, whatever the database said
        found = str(error)
    assert found == (2980, 2980) or re.search(r"damaged|cannot be|tampered", found), found


@pytest.mark.parametrize("left", [0, 100, 4096, 5000])
def test_a_file_cut_short_is_refused(folder, left):
    path = folder / "state.sqlite"
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(StateError, match=r"damaged|lost|cannot"):
        opened(folder)


def test_a_lost_state_is_not_begun_again_silently(folder):
    for path in folder.glob("state.sqlite*"):
        path.unlink()
    with pytest.raises(StateError, match=r"lost.*--new-epoch"):
        opened(folder)
    assert opened(folder, new_epoch=True) == (0, 0)


def test_a_lost_or_older_ledger_is_refused(folder, tmp_path):
    ledger = folder / "ledger.jsonl"
    content = ledger.read_bytes()
    lines = content.splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(TidegateError, match="cut short or rolled back"):
        opened(folder)
    ledger.unlink()
    with pytest.raises(TidegateError, match=r"ledger.*missing"):
        opened(folder)
    ledger.write_bytes(content)
    assert opened(folder) == (2980, 2980)


def test_settings_must_be_the_same(folder):
    other = tg.tops(epsilon=2, bound=100, holdout=20, horizon=256, fanout=4, skipped=1)
    with pytest.raises(StateError, match=r"other settings.*epsilon: 1 then, 2 now"):
        DurableRelease.open(folder, other)


def test_what_is_there_can_be_opened_without_naming_the_settings(folder, tmp_path):
    with DurableRelease.existing(folder) as run:
        assert run.pipeline == PIPELINE
        assert run.seen == 3000
    with pytest.raises(MissingError, match="no state"):
        DurableRelease.existing(tmp_path / "typo")
    assert not (tmp_path / "typo").exists()


KEY, OTHER = bytes(range(32)), bytes(range(1, 33))


def test_keys_open_what_they_closed_and_nothing_else(tmp_path):
    folder = tmp_path / "state"
    with DurableRelease.open(folder, PIPELINE, key=KEY) as run:
        run.push(VALUES)
    for wrong in (None, OTHER):
        with pytest.raises(StateError, match="key"):
            opened(folder, key=wrong)
    assert opened(folder, key=KEY) == (2980, 2980)


def test_a_key_for_an_unsealed_state_is_refused(folder):
    with pytest.raises(StateError, match="not sealed"):
        opened(folder, key=KEY)


def shows(folder, secret):
    """Whether any part of a secret is in any file; state is written as hex, also of hex."""
    content = b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    once = secret.hex().encode()
    return any(
        written[start : start + 16] in content
        for written in (secret, once, once.hex().encode())
        for start in range(0, len(written) - 15, 8)
    )


def test_a_sealed_state_shows_no_secret(tmp_path):
    folder = tmp_path / "state"
    with DurableRelease.open(folder, PIPELINE, key=KEY) as run:
        secret = run._release._epoch.secret
        run.push(VALUES)
        assert not shows(folder, secret)


def test_another_key_leaves_no_copy_for_the_old_one(folder):
    with DurableRelease.open(folder, PIPELINE) as run:
        secret = run._release._epoch.secret
        assert shows(folder, secret)
        run.change_key(KEY)
        assert not shows(folder, secret)
        run.push(VALUES[:100])
    assert not shows(folder, secret)
    assert opened(folder, key=KEY) == (3080, 3080)
    with pytest.raises(StateError, match="sealed"):
        opened(folder)


def test_what_was_erased_is_gone(folder):
    with DurableRelease.open(folder, PIPELINE) as run:
        secret = run._release._epoch.secret
        assert shows(folder, secret)
        run.erase()
        assert not shows(folder, secret)
        with pytest.raises(TidegateError):
            run.push(VALUES[:5])
    assert not shows(folder, secret)
    with pytest.raises(StateError, match="erased"):
        opened(folder)
    assert opened(folder, new_epoch=True) == (0, 0)


def test_values_held_in_memory_do_not_come_back_after_erasing(tmp_path):
    folder = tmp_path / "state"
    run = DurableRelease.open(folder, PIPELINE)
    run.push(VALUES[:5])  # in the hold-out: not saved one by one
    secret = run._release._epoch.secret
    run.erase()
    run.close()
    assert not shows(folder, secret)


def test_a_new_epoch_leaves_nothing_secret_of_the_old_one(folder):
    with DurableRelease.open(folder, PIPELINE) as run:
        secret = run._release._epoch.secret
        assert shows(folder, secret)
    with DurableRelease.open(folder, PIPELINE, new_epoch=True) as run:
        run.erase()
    assert not shows(folder, secret)


DAMAGE = {
    "a number for a state": "UPDATE state SET body = 7",
    "a number for a fact": "UPDATE facts SET value = 1000000000000 WHERE name = 'settings'",
    "an anchor that is none": "UPDATE facts SET value = x'37' WHERE name = 'anchor'",
    "text for a row": "UPDATE journal SET body = 'row'",
    "no journal": "DROP TABLE journal",
    "no inputs": "DROP TABLE inputs",
    "another threshold": "UPDATE phases SET threshold = threshold + 1",
    "a phase that is none": "UPDATE phases SET epoch = x'ff'",
}


def _all_of_it(folder):
    with DurableRelease.existing(folder) as run:
        return [*run.replay()], run.recogniser()


@pytest.mark.parametrize("statement", DAMAGE.values(), ids=DAMAGE.keys())
def test_damaged_content_is_refused_and_a_new_epoch_gets_past_it(folder, statement):
    with closing(sqlite3.connect(folder / "state.sqlite")) as database, database:
        database.execute(statement)
    if "anchor" not in statement:  # which only a new epoch asks for
        with pytest.raises(StateError, match="damaged"):
            _all_of_it(folder)
    assert opened(folder, new_epoch=True) == (0, 0)


def test_damage_that_is_no_text_is_refused_and_a_new_epoch_gets_past_it(folder):
    """SQLite quotes a damaged schema in its message, and Python cannot read that."""
    path = folder / "state.sqlite"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"CREATE TABLE journal (", b"CREATE TABLE journal \xff"))
    assert path.read_bytes() != whole
    with pytest.raises(StateError, match="damaged"):
        opened(folder)
    assert opened(folder, new_epoch=True) == (0, 0)
