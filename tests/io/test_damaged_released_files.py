"""Rows of a released file that no release has written: refused, and no number is made of them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tidegate as tg
from tests.fuzz.keyed_parsers import keyed_files
from tidegate.cli.app import app
from tidegate.errors import TidegateError
from tidegate.io.metadata_files import metadata_sidecar
from tidegate.released import ReleasedFile

STRANGE = ["nan", "inf", "-inf", "-1", "0.5", "1e300", "9223372036854775807", ""]


@pytest.fixture(autouse=True)
def _every_warning_is_a_fault() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """A released file, and its metadata."""
    path = tmp_path_factory.mktemp("released") / "out.csv"
    options = ["--preset", "tops", "--epsilon", "1", "--bound", "100", "--holdout", "4"]
    options += ["--horizon", "64", "--fanout", "4", "--skipped", "1"]
    result = CliRunner().invoke(app, ["release", "-", "-o", str(path), *options], input="5\n" * 64)
    assert result.exit_code == 0, result.output
    return path.read_bytes(), metadata_sidecar(path).read_bytes()


def changed(path: Path, column: int, row: int, text: str) -> None:
    lines = path.read_text().splitlines()
    cells = lines[1 + row].split(",")
    cells[column] = text
    lines[1 + row] = ",".join(cells)
    path.write_text("\n".join(lines) + "\n")


def ask_one(path: Path) -> None:
    ReleasedFile.open(path).record.query(0, 60)


def ask_keys(path: Path) -> None:
    file = tg.open(path)
    file.record(file.keys[0]).query(4, 7)


def check(path: Path, ask: Callable[[Path], None], names: Sequence[str]) -> None:
    good = path.read_bytes()
    ask(path)
    for name in ("position", "value"):
        for row in (0, 7, 40):
            for text in STRANGE:
                if name == "value" and text in ("-1", "0.5"):
                    continue  # noise can be anything finite
                path.write_bytes(good)
                changed(path, names.index(name), row, text)
                for index in path.parent.glob(".*"):
                    index.unlink()
                with pytest.raises(TidegateError):
                    ask(path)


def test_one_stream(tmp_path: Path, written: tuple[bytes, bytes]) -> None:
    # Catches: the difference of two infinite positions; 1e300 cast to 64 bits.
    path = tmp_path / "out.csv"
    path.write_bytes(written[0])
    metadata_sidecar(path).write_bytes(written[1])
    check(path, ask_one, ["position", "value"])


@pytest.mark.parametrize("number", [0, 2])  # whose sums are made from the rows
def test_many_keys(tmp_path: Path, number: int) -> None:
    # Catches: a NaN position cast to an integer, and the NaN of a value in the sums of a key.
    _, data, facts = keyed_files()[number]
    path = tmp_path / "keyed.csv"
    path.write_bytes(data)
    metadata_sidecar(path).write_text(json.dumps(facts))
    check(path, ask_keys, data.splitlines()[0].decode().split(","))
