"""`tidegate state`: look, change the key, erase."""

import os

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import tidegate as tg
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


@pytest.mark.parametrize("name", ["show", "rekey", "erase"])
def test_no_state_is_told_and_none_is_made(tmp_path, name):
    result = run(name, tmp_path / "typo")
    assert result.exit_code == 3
    assert "typo" in result.stderr
    assert not (tmp_path / "typo").exists()


def test_a_running_release_is_left_alone(folder):
    with DurableRelease.open(folder, PIPELINE):
        for name in ("show", "rekey", "erase"):
            result = run(name, folder, *(["--yes"] if name == "erase" else []))
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


def test_a_key_that_cannot_be_read(folder, tmp_path):
    result = run("rekey", folder, "--new-key-file", tmp_path / "missing")
    assert result.exit_code == 2
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


def test_erased_for_good(folder):
    assert run("erase", folder, "--yes").exit_code == 0
    for name in ("show", "rekey", "erase"):
        assert run(name, folder, *(["--yes"] if name == "erase" else [])).exit_code == 3
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
