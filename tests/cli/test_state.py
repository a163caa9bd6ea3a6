"""`tidegate state`: look, change the key, erase."""

import os
import shutil

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import tidegate as tg
from tests.faults import no_file_above
from tidegate.cli import state
from tidegate.durable import DurableRelease

app = typer.Typer()
app.add_typer(state.app, name="state")

PIPELINE = tg.tops(
    epsilon=1, bound=100, holdout=20, horizon=256, skipped=0, rethreshold_every=1000,
    rethreshold_share="1/4",
)  # fmt: skip
VALUES = np.random.default_rng(1).integers(0, 100, 3000)


def run(*arguments, stdin=None):
    result = CliRunner().invoke(app, ["state", *map(str, arguments)], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def folder(tmp_path):
    with DurableRelease.open(tmp_path / "meters", PIPELINE) as release:
        release.push(VALUES)
    return tmp_path / "meters"


def key_file(tmp_path, name):
    (tmp_path / name).write_text(os.urandom(32).hex())
    return tmp_path / name


def test_show(folder):
    result = run("show", folder)
    assert result.exit_code == 0
    for words in ("meters", "3,000 values", "2,980 values", "ε = 1 per event"):
        assert words in result.stdout
    assert result.stdout.count("threshold") == 3
    with DurableRelease.open(folder, PIPELINE) as release:
        assert release._release._epoch.secret.hex() not in result.stdout


def test_show_changes_nothing(folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    run("show", folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


COMMANDS = ("show", "rekey", "unseal", "erase")


def needed(name, tmp_path):
    """The options without which a command would ask, or refuse."""
    new_key = ["--new-key-file", key_file(tmp_path, "new")] if name == "rekey" else []
    return [*new_key, *(["--yes"] if name in ("unseal", "erase") else [])]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_state_is_told_and_none_is_made(tmp_path, name):
    result = run(name, tmp_path / "typo", *needed(name, tmp_path))
    assert result.exit_code == 4
    assert "typo" in result.stderr
    assert not (tmp_path / "typo").exists()


def test_a_running_release_is_left_alone(folder, tmp_path):
    with DurableRelease.open(folder, PIPELINE):
        for name in COMMANDS:
            result = run(name, folder, *needed(name, tmp_path))
            assert result.exit_code == 3
            assert "another process" in result.stderr


def test_keys_are_changed(folder, tmp_path, monkeypatch):
    one, two = key_file(tmp_path, "one"), key_file(tmp_path, "two")
    assert run("rekey", folder, "--new-key-file", one).exit_code == 0
    assert run("show", folder).exit_code == 3
    assert run("show", folder, "--key-file", two).exit_code == 3
    assert run("show", folder, "--key-file", one).exit_code == 0
    assert run("rekey", folder, "--key-file", one, "--new-key-file", two).exit_code == 0
    assert run("show", folder, "--key-file", one).exit_code == 3
    monkeypatch.setenv("TIDEGATE_KEY", two.read_text())
    assert run("show", folder).exit_code == 0
    with DurableRelease.existing(folder, key=bytes.fromhex(two.read_text())) as release:
        assert release.push(VALUES[:10])[0] == 2980


def test_rekey_without_a_new_key_changes_nothing(folder, tmp_path, monkeypatch):
    """It used to unseal the state, and to say that only the new key opens it."""
    one = key_file(tmp_path, "one")
    assert run("rekey", folder, "--new-key-file", one).exit_code == 0
    for environment in (None, one.read_text()):
        if environment:
            monkeypatch.setenv("TIDEGATE_KEY", environment)
        result = run("rekey", folder, "--key-file", one)
        assert result.exit_code == 2
        assert result.stderr.startswith("tidegate: --new-key-file is missing")
        assert "state unseal" in result.stderr
    assert run("rekey", folder, "--key-file", one, "--new-key-file", one).exit_code == 2
    monkeypatch.delenv("TIDEGATE_KEY")
    assert run("show", folder).exit_code == 3  # still sealed
    assert run("show", folder, "--key-file", one).exit_code == 0


def test_unsealing_has_its_own_word_and_asks(folder, tmp_path):
    one = key_file(tmp_path, "one")
    assert run("rekey", folder, "--new-key-file", one).exit_code == 0
    assert "sealed     yes" in run("show", folder, "--key-file", one).stdout
    assert run("unseal", folder, "--key-file", one, stdin="n\n").exit_code != 0
    assert run("unseal", folder).exit_code == 3  # without the key
    assert run("show", folder).exit_code == 3
    result = run("unseal", folder, "--key-file", one, "--yes")
    assert result.exit_code == 0
    assert "no longer sealed" in result.stdout
    assert "sealed     no" in run("show", folder).stdout
    again = run("unseal", folder, "--yes")
    assert again.exit_code == 0
    assert "nothing was changed" in again.stdout


def test_messages_say_which_backups_open_with_what(folder, tmp_path):
    one, two = key_file(tmp_path, "one"), key_file(tmp_path, "two")
    first = run("rekey", folder, "--new-key-file", one).stdout
    assert "earlier backups are not sealed" in first
    second = run("rekey", folder, "--key-file", one, "--new-key-file", two).stdout
    assert "earlier backups open with the old key" in second


@pytest.mark.parametrize("command", ["rekey", "erase"])
def test_a_full_disk_is_told_as_it_is(folder, tmp_path, command):
    """The new state is committed first; then old content may stay in the file, which is said."""
    one = key_file(tmp_path, "one")
    options = ["--new-key-file", one] if command == "rekey" else ["--yes"]
    outcomes = set()
    for number, size in enumerate((5_000, *range(80_000, 130_000, 6_000), 1_000_000)):
        copy = tmp_path / str(number)
        shutil.copytree(folder, copy)
        with no_file_above(size):
            result = run(command, copy, *options)
        changed = run("show", copy).exit_code == 3  # sealed, or erased
        half = "may still be read" in result.stderr
        assert result.exit_code == (0 if not result.stderr else 4)
        assert len(result.stderr.splitlines()) <= 1
        assert changed == (result.exit_code == 0 or half)
        outcomes.add((result.exit_code, half))
    assert outcomes == {(4, False), (4, True), (0, False)}


def test_a_key_that_cannot_be_read(folder, tmp_path):
    result = run("rekey", folder, "--new-key-file", tmp_path / "missing")
    assert result.exit_code == 4
    (tmp_path / "short").write_text("my secret")
    result = run("rekey", folder, "--new-key-file", tmp_path / "short")
    assert result.exit_code == 2
    assert "my secret" not in result.output
    assert run("show", folder).exit_code == 0  # as it was


def test_erasing_asks_first(folder):
    assert run("erase", folder, stdin="n\n").exit_code != 0
    assert run("show", folder).exit_code == 0
    assert run("erase", folder, stdin="y\n").exit_code == 0
    result = run("show", folder)
    assert result.exit_code == 3
    assert "erased" in result.stderr


def test_erased_for_good(folder, tmp_path):
    assert run("erase", folder, "--yes").exit_code == 0
    for name in COMMANDS:
        assert run(name, folder, *needed(name, tmp_path)).exit_code == 3
    with DurableRelease.open(folder, PIPELINE, new_epoch=True) as release:
        assert release.position == 0


def test_damage_is_told(folder):
    path = folder / "state.sqlite"
    content = bytearray(path.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    path.write_bytes(content)
    result = run("show", folder)
    assert result.exit_code == 3
    assert result.stderr.startswith("tidegate: ")


def test_keys_may_come_from_pipes_and_be_any_bytes(folder, tmp_path, monkeypatch):
    """A pipe can be read once; an environment holds bytes that need not be text."""
    pipes = []
    for number in (0xFE, 0xFF):
        reading, writing = os.pipe()
        os.write(writing, bytes([number]) * 32)
        os.close(writing)
        pipes.append(reading)
    with DurableRelease.open(folder, PIPELINE) as release:
        release.change_key(b"\xfe" * 32)
    old, new = (f"/dev/fd/{pipe}" for pipe in pipes)
    result = run("rekey", folder, "--key-file", old, "--new-key-file", new)
    assert result.exit_code == 0, result.output
    for pipe in pipes:
        os.close(pipe)
    monkeypatch.setenv("TIDEGATE_KEY", os.fsdecode(b"\xff" * 32))
    assert run("show", folder).exit_code == 0
