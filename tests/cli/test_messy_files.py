"""Files as strangers have them: each is read rightly, or the error says what to do about it."""

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.invoking import run

ROWS = 40
TIMES = [f"2024-03-01T{number // 60:02}:{number % 60:02}" for number in range(ROWS)]
TABLE = "when,load\n" + "".join(f"{time},{number}\n" for number, time in enumerate(TIMES))
CONVERT = "iconv -f latin1 -t utf-8"
MARKS = "a currency sign or marks of thousands, a unit, a percent sign or brackets"


def problem(path: Path, content: str | bytes, *words: str) -> str:
    """What is said about this input; nothing was spent, and no raw text was shown."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    settings = ("--epsilon", "1", "--bound", "100", "-o", path.with_name("out.csv"))
    result = run("release", path, *(words or ("--column", "load", "--time", "when")), *settings)
    assert result.exit_code in (2, 4), result.output
    assert not path.with_name("out.csv").exists()
    assert "SECRET" not in result.output
    return result.stderr


@pytest.mark.parametrize("cell", ["12 kWh", "12.5%", "$12", "12 €", "(12.5)", "12-", "1 234,50 kr"])
def test_a_number_with_marks_beside_it(tmp_path: Path, cell: str) -> None:
    said = problem(tmp_path / "in.csv", TABLE.replace(",0\n", f',"{cell}"\n', 1))
    assert MARKS in said
    assert "write 1234.5, or -1234.5 below 0" in said
    assert "line 2 of the input" in said
    assert cell not in said


@pytest.mark.parametrize("cell", ["SECRET", "yes", "12:30", "2024-03-01"])
def test_other_text_is_not_taken_for_a_marked_number(tmp_path: Path, cell: str) -> None:
    said = problem(tmp_path / "in.csv", TABLE.replace(",5\n", f",{cell}\n", 1))
    assert "leave it empty if it is missing" in said
    assert "header" not in said  # it is row 5


def test_a_second_line_of_the_header(tmp_path: Path) -> None:
    said = problem(tmp_path / "in.csv", TABLE.replace("\n", "\nUTC,SECRET\n", 1))
    assert "if this line belongs to the header, remove it (line 2 of the input)" in said


@pytest.mark.parametrize(
    ("before", "line"),
    [("# SECRET\n# SECRET, too\n", 3), ("SECRET report\n\n", 3), ("\n\nSECRET\n", 4)],
)
def test_lines_before_the_names_are_counted(tmp_path: Path, before: str, line: int) -> None:
    said = problem(tmp_path / "in.csv", before + TABLE)
    assert f"--column is named in line {line}, not in the first" in said
    assert f"tail -n +{line}" in said


def test_excels_line_of_the_separator(tmp_path: Path) -> None:
    words = ("--column", "load", "--delimiter", ";")
    said = problem(tmp_path / "in.csv", "sep=;\n" + TABLE.replace(",", ";"), *words)
    assert "is named in line 2" in said


def test_a_title_of_a_spreadsheet_has_empty_fields(tmp_path: Path) -> None:
    said = problem(tmp_path / "in.csv", "SECRET report,\n,\n" + TABLE)
    assert "--column is named in line 3, not in the first" in said
    said = problem(tmp_path / "other.csv", "SECRET,\n1,2\n" + TABLE)
    assert "there is no 'load'" in said
    assert "line 4" not in said


def test_rows_are_not_searched_for_names(tmp_path: Path) -> None:
    """A row that has the name as its value is a row: no message tells where it is."""
    said = problem(tmp_path / "in.csv", "a,b\n1,2\nx,load\n", "--column", "load")
    assert "there is no 'load'" in said
    assert "line 3" not in said


def test_a_line_end_inside_quotes(tmp_path: Path) -> None:
    rows = "".join(f'{time},"SECRET\nSECRET",{at}\n' for at, time in enumerate(TIMES))
    said = problem(tmp_path / "in.csv", "when,note,load\n" + rows)
    assert "remove line breaks inside quotes first (line 2 of the input)" in said


def test_a_row_of_another_width_is_found(tmp_path: Path) -> None:
    said = problem(tmp_path / "in.csv", TABLE.replace(",7\n", ",7,SECRET\n"))
    assert "row 7 does not have 2 fields (line 9 of the input)" in said


@pytest.mark.parametrize(
    ("content", "words", "advice"),
    [
        (TABLE.replace("load", "Größe").encode("latin-1"), ("--column", "Größe"), CONVERT),
        (TABLE.encode("utf-16"), ("--column", "load"), "iconv -f utf-16 -t utf-8"),
        (TABLE.replace("\n", "\r"), ("--column", "load"), r"tr '\r' '\n'"),
        (b"SQLite format 3\0" + bytes(100), ("--column", "load"), "export the table as CSV"),
        (b"ARROW1\0\0" + bytes(100), ("--column", "load"), "write it as Parquet"),
    ],
)
def test_files_that_are_not_text_in_utf_8(tmp_path, content, words, advice) -> None:
    assert advice in problem(tmp_path / "in.csv", content, *words)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("in.csv.zip", "is an archive: unpack it first"),
        ("in.csv.bz2", "is compressed otherwise: use .gz or .zst"),
        ("in.sqlite", "is a database: write the table as Parquet or CSV"),
        ("in.feather", "is of a kind that is not read: write the table as Parquet or CSV"),
        ("in.xlsx", "is a spreadsheet: save the sheet as CSV"),
        ("in.txt", "--format: unknown extension; choose one of csv"),
    ],
)
def test_files_of_other_kinds(tmp_path: Path, name: str, advice: str) -> None:
    assert advice in problem(tmp_path / name, TABLE)


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ("12.5", "it is text: write numbers without quotes"),
        ({"SECRET": 1}, "it is an object: name a key in it, as in --column load.KEY"),
        ([1], "it is a list: write one number a line"),
    ],
)
def test_values_of_other_types_in_json(tmp_path: Path, value: object, advice: str) -> None:
    line = json.dumps({"load": value}) + "\n"
    assert advice in problem(tmp_path / "in.jsonl", line, "--column", "load")


def test_an_output_that_cannot_be_is_not_called_an_input(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(TABLE)
    (tmp_path / "folder").mkdir()
    settings = ("--column", "load", "--epsilon", "1", "--bound", "100")
    said = run("release", tmp_path / "in.csv", *settings, "-o", tmp_path / "folder").stderr
    assert said.startswith("tidegate: --output: ")
    said = run("release", tmp_path / "in.csv", *settings, "-o", tmp_path / "out.xlsx").stderr
    assert "save the sheet" not in said
    assert "--output-format: unknown extension; choose one of" in said


def test_tabs_are_written_and_read_again(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(TABLE)
    settings = ("--column", "load", "--time", "when", "--epsilon", "3", "--bound", "100")
    for name in ("out.tsv", "out.tsv.gz"):
        out = tmp_path / name
        assert run("release", tmp_path / "in.csv", *settings, "-o", out).exit_code == 0
        data = out.read_bytes()
        lines = (gzip.decompress(data) if name.endswith("gz") else data).decode().splitlines()
        assert lines[0] == "time\tposition\tvalue\tlevel"
        assert lines[1].split("\t")[:2] == [TIMES[0] + ":00", "0"]
        assert len(lines) == ROWS + 1
        words = ("--from", TIMES[0], "--to", TIMES[20], "--json")
        assert json.loads(run("query", out, *words).stdout)["answers"][0]["end"] == 20
        assert run("show", out).exit_code == 0


def test_a_state_continues_a_file_with_tabs(tmp_path: Path) -> None:
    source, out = tmp_path / "in.tsv", tmp_path / "out.tsv"
    words = ("--column", "load", "--epsilon", "3", "--bound", "100", "--state", tmp_path / "state")
    source.write_text(TABLE.replace(",", "\t"))
    assert run("release", source, *words, "-o", out).exit_code == 0
    with out.open("ab") as file:
        file.write(b"40\t1.")  # as a crash leaves it
    with source.open("a") as file:
        file.write(f"{TIMES[-1]}\t7\n" * 10)
    assert run("release", source, *words, "-o", out).exit_code == 0
    rows = [line.split("\t") for line in out.read_text().splitlines()[1:]]
    assert [row[0] for row in rows] == [str(position) for position in range(ROWS + 10)]


def test_keys_beside_tabs(tmp_path: Path) -> None:
    keys = ("a", "c, d", 'e "f"')
    lines = [json.dumps({"k": keys[at % 3], "load": at}) for at in range(300)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    settings = (
        "--column",
        "load",
        "--by",
        "k",
        "--keys-are-public",
        "--epsilon",
        3,
        "--bound",
        300,
    )
    sums = []
    for name in ("out.tsv", "out.csv"):
        out = tmp_path / name
        assert run("release", tmp_path / "in.jsonl", *settings, "-o", out).exit_code == 0
        found = json.loads(run("query", out, "--json").stdout)
        sums.append([one["key"] for one in found["answers"]])
    assert sums[0] == sums[1] == [*keys, "total"]
    first = (tmp_path / "out.tsv").read_text().splitlines()[1:3]
    assert [line.split("\t0\t")[0] for line in first] == ["a", "c, d"]


@pytest.mark.parametrize("last", ["Total,780\n", ",780\n", "\n"])
def test_a_row_of_totals_or_a_blank_one_has_no_time(tmp_path: Path, last: str) -> None:
    said = problem(tmp_path / "in.csv", TABLE + last)
    assert f"time at position {ROWS} is " in said
    assert ("remove rows without a time" in said) == (last[0] != "T")


@pytest.mark.parametrize("wrong", ["2024-02-30", "2016-12-31T23:59:60Z", "2024-03-01T25:00"])
def test_times_that_do_not_exist(tmp_path: Path, wrong: str) -> None:
    said = problem(tmp_path / "in.csv", TABLE.replace(TIMES[3], wrong))
    assert "time at position 3 is not a time: there is no such day" in said


def test_a_small_number_is_not_asked_for_as_a_time(tmp_path: Path) -> None:
    """A key 7 that was given as a time asked for all rows since seven seconds after 1970."""
    (tmp_path / "in.csv").write_text(TABLE)
    timed = ("--time", "when", "--zone", "Europe/Berlin", "--epsilon", 3, "--bound", 100)
    out = tmp_path / "out.csv"
    assert run("release", tmp_path / "in.csv", "--column", "load", *timed, "-o", out).exit_code == 0
    said = run("query", out, "--from", "7").stderr
    assert "from is a number, which counts from 1970: write a date" in said
    assert run("query", out, "--from", "1709247600").exit_code == 0  # 2024-03-01 in Berlin


def test_check_counts_keys_where_times_cannot_be_read(tmp_path: Path) -> None:
    """It ended in an error of ours: the rows were read again, and their keys forgotten."""
    rows = "".join(f"{day:02d}.03.2024 07:00;{key};1,5\n" for day in range(1, 29) for key in "ab")
    (tmp_path / "in.csv").write_text("when;plant;kW\n" + rows)
    words = ["--column", "kW", "--delimiter", ";", "--decimal", ",", "--by", "plant"]
    result = run("check", tmp_path / "in.csv", *words, "--time", "when", "--bound", 10)
    assert result.exit_code == 0, result.stderr
    assert "2 in 'plant': 28 to 28 rows each" in result.stdout
    assert "--time-format '%d.%m.%Y %H:%M'" in result.stdout
