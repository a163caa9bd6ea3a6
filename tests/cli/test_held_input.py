"""`release --by --keys` reads a file once if it is not too large: what it releases is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.invoking import run
from tests.entropy import beginning_with
from tidegate.cli import declared_keys_and_rows
from tidegate.io import open_source
from tidegate.io.held_source import HeldSource

ROWS = "".join(f"{'a' if row % 3 else 'b'},{row % 7}\n" for row in range(6000))
BAD_VALUE = f"{ROWS}a,none of your business\n{ROWS}"


def released(folder: Path, text: str, most: int, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Exit code, messages and files of a run that holds inputs of up to `most` rows."""
    folder.mkdir(exist_ok=True)
    (folder / "keys").write_text("a\nb\n")
    (folder / "in.csv").write_text("key,value\n" + text)
    monkeypatch.setattr(declared_keys_and_rows, "_HELD", most)
    for old in folder.glob("out.csv*"):
        old.unlink()
    words = ["--by", "key", "--keys", folder / "keys", "--column", "value", "--epsilon", 1]
    with beginning_with("held"):
        found = run("release", folder / "in.csv", *words, "--bound", 9, "-o", folder / "out.csv")
    outputs = [(path.name, path.read_bytes()) for path in sorted(folder.glob("out.csv*"))]
    return [found.exit_code, found.output, outputs]


@pytest.mark.parametrize("text", [ROWS, BAD_VALUE, ROWS + "c,1\n" * 3000])
@pytest.mark.parametrize("small", [True, False])
def test_a_held_input_releases_the_same(
    text: str, small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not small:  # then rows before a bad one are released
        monkeypatch.setattr("tidegate.cli.file_options._READ_FIRST", 0)
    apart = released(tmp_path, text, 0, monkeypatch)
    assert released(tmp_path, text, 1 << 26, monkeypatch) == apart
    assert (apart[0] == 0) == (text != BAD_VALUE)
    assert bool(apart[2]) == (not small or text != BAD_VALUE)


def test_a_held_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    monkeypatch.setattr(
        "tidegate.io.open_source", lambda *a, **k: opened.append(a) or open_source(*a, **k)
    )
    assert released(tmp_path, ROWS, 1 << 26, monkeypatch)[0] == 0
    assert len(opened) == 1


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_what_is_held_is_limited_by_rows(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the size of a file: columns that nobody asks for take no memory."""
    arrow_csv = pytest.importorskip("pyarrow.csv", reason="files need the extra [cli]")
    parquet = pytest.importorskip("pyarrow.parquet", reason="files need the extra [cli]")
    (tmp_path / "in.csv").write_text("key,value\n" + ROWS)
    parquet.write_table(arrow_csv.read_csv(tmp_path / "in.csv"), tmp_path / "in.parquet")
    opening = {"format": None, "column": "value", "by": "key"}

    def held() -> HeldSource | None:
        return declared_keys_and_rows._held_file_with_keys(str(tmp_path / f"in.{form}"), opening)

    found = held()
    assert found is not None
    assert found.rows == 6000
    monkeypatch.setattr(declared_keys_and_rows, "_HELD", 5999)
    assert held() is None
    monkeypatch.setattr(declared_keys_and_rows, "_HELD", 6001 + (form == "csv"))  # a header
    assert held() is not None
    monkeypatch.setattr(declared_keys_and_rows, "_HELD_LINES", 100)
    assert (held() is None) == (form == "csv")


def test_given_rows_are_not_held_any_more(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("value\n" + "1\n" * 10)
    with open_source(tmp_path / "in.csv") as opened:
        held = HeldSource(opened)
    assert (held.rows, held.fraction(), repr(held)) == (10, 0.0, "<HeldSource>")
    assert sum(len(batch) for batch in held.batches()) == 10
    assert held.fraction() == 1.0
    assert not held.held
