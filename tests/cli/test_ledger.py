"""`tidegate ledger`: charges, what they add up to, and what is left."""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from tidegate.cli import ledger
from tidegate.guarantee import Guarantee
from tidegate.ledger import Ledger

app = typer.Typer()
app.command("ledger")(ledger.ledger)
TENTH = Guarantee(epsilon=Fraction(1, 10))
THIRD = Guarantee(epsilon=Fraction(1, 3))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Ledger.open(tmp_path / "ledger.jsonl", cap="0.5") as book:
        for source, epoch in (("meters", "a" * 32), ("shops", "b" * 32)):
            shared = {"source": source, "epoch": epoch, "guarantee": TENTH}
            book.charge(**shared, stage="threshold", start=0, end=64)
            book.charge(**shared, stage="stream", start=64)
        book.charge(
            source="meters", epoch="c" * 32, stage="stream", start=80, guarantee=THIRD, note="lost"
        )
    return tmp_path


@pytest.fixture
def look() -> Callable[..., Result]:
    return lambda *words: CliRunner().invoke(app, list(map(str, words)))


def test_charges_stretches_and_totals(folder: Path, look: Callable[..., Result]) -> None:
    result = look(folder)
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "meters [0, 64) threshold 0.1 0.1 0" in lines
    assert "meters [80, …) stream 0.1 + stream 1/3 13/30 0" in lines
    assert "meters 13/30 0 per event 1/15" in lines
    assert "shops 0.1 0 per event 0.4" in lines
    assert "all sources 8/15 0 per event" in lines
    assert any("left of 0.5" in line for line in lines)
    assert any("cccccccc" in line and "meters stream [80, …) 1/3 0" in line for line in lines)


def test_the_same_as_data(folder: Path, look: Callable[..., Result]) -> None:
    facts = json.loads(look(folder, "--json").stdout)
    with Ledger.open(folder / "ledger.jsonl", read_only=True) as book:
        assert (facts["entries"], facts["head"]) == (book.count, book.head)
        assert facts["total"]["epsilon"] == str(book.total().epsilon)
        assert len(facts["charges"]) == len(book.charges())
    assert [charge["note"] for charge in facts["charges"]] == ["", "", "", "", "lost"]
    meters, _ = facts["sources"]
    assert [part["epsilon"] for part in meters["ranges"]] == ["1/10", "1/10", "13/30"]
    assert (meters["total"]["epsilon"], meters["left"], facts["cap"]) == ("13/30", "1/15", "1/2")


def test_one_source(folder: Path, look: Callable[..., Result]) -> None:
    result = look(folder, "--source", "shops")
    assert "meters" not in result.stdout
    assert "shops" in result.stdout
    result = look(folder, "--source", "nobody")
    assert result.exit_code == 2
    assert "meters, shops" in result.stderr


def test_what_would_be_left_of_another_cap(folder: Path, look: Callable[..., Result]) -> None:
    before = (folder / "ledger.jsonl").read_bytes()
    result = look(folder, "--cap", "0.3")
    assert result.exit_code == 0
    assert "over by 2/15" in result.stdout
    assert "assumption" in result.stdout
    assert (folder / "ledger.jsonl").read_bytes() == before


def test_setting_the_cap(folder: Path, look: Callable[..., Result]) -> None:
    result = look(folder, "--set-cap", "0.6")
    assert result.exit_code == 0
    assert "left of 0.6" in result.stdout
    with Ledger.open(folder / "ledger.jsonl", read_only=True) as book:
        assert book.cap == Fraction(3, 5)
        assert book.entries[-1].note == "tidegate ledger --set-cap"


def test_beside_a_running_release(folder: Path, look: Callable[..., Result]) -> None:
    with Ledger.open(folder / "ledger.jsonl"):
        assert look(folder).exit_code == 0
        result = look(folder, "--set-cap", "1")
        assert result.exit_code == 3
        assert "in use" in result.stderr


def test_a_ledger_that_was_changed_is_refused(folder: Path, look: Callable[..., Result]) -> None:
    path = folder / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"epsilon":"1/3"', b'"epsilon":"1/9"'))
    for words in ((), ("--json",), ("--set-cap", "9")):
        result = look(folder, *words)
        assert (result.exit_code, result.stdout) == (3, "")
        assert "entry 7" in result.stderr


def test_an_unfinished_entry_is_mentioned(folder: Path, look: Callable[..., Result]) -> None:
    with (folder / "ledger.jsonl").open("ab") as file:
        file.write(b'{"sequence":8,')
    result = look(folder)
    assert result.exit_code == 0
    assert "unfinished entry" in result.stdout


def test_no_ledger(tmp_path: Path, look: Callable[..., Result]) -> None:
    for place in (tmp_path, tmp_path / "missing"):
        result = look(place, "--set-cap", 1)
        assert (result.exit_code, result.stdout) == (4, "")
    assert not list(tmp_path.iterdir())


def test_an_empty_one_and_a_file_by_its_own_name(
    tmp_path: Path, look: Callable[..., Result]
) -> None:
    Ledger.open(tmp_path / "budget.ledger").close()
    result = look(tmp_path / "budget.ledger")
    assert result.exit_code == 0
    assert "Nothing was charged yet" in result.stdout


@pytest.mark.parametrize("words", [("--cap", "0"), ("--cap", "x"), ("--cap", 1, "--set-cap", 1)])
def test_bad_options(folder: Path, look: Callable[..., Result], words: tuple[str, ...]) -> None:
    result = look(folder, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cap" in result.stderr
