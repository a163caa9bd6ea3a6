"""CSV as spreadsheets write it elsewhere: other separators, decimal commas, and what is said."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.errors import InputError, SettingError
from tidegate.io import open_source

SECRET = "73519"


def read(path: Path, **options: str | bool) -> np.ndarray:
    with open_source(path, **options) as source:
        return np.concatenate([np.empty(0), *(batch.values for batch in source.batches())])


def csv(folder: Path, text: str) -> Path:
    path = folder / "in.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize("rows", [3, 3000])  # row by row, and in blocks
@pytest.mark.parametrize(
    ("delimiter", "sign"), [(";", ";"), ("tab", "\t"), ("\t", "\t"), ("|", "|")]
)
@pytest.mark.parametrize("decimal", [".", ","])
def test_other_separators_and_decimal_signs(
    tmp_path: Path, rows: int, delimiter: str, sign: str, decimal: str
) -> None:
    numbers = np.arange(rows) / 8
    lines = [f'"a{sign}b"{sign}{number}'.replace(".", decimal) for number in numbers]
    lines[1] = f"x{sign}"  # a missing value
    path = csv(tmp_path, f"name{sign}watts\n" + "\n".join(lines) + "\n")
    found = read(path, column="watts", delimiter=delimiter, decimal=decimal)
    assert np.isnan(found[1])
    assert np.array_equal(np.delete(found, 1), np.delete(numbers, 1))


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        (f"day;watts\n1;{SECRET}\n", {"column": "watts"}, "semicolons.*--delimiter ';'"),
        (f"day\twatts\n1\t{SECRET}\n", {"column": "watts"}, "tabs.*--delimiter tab"),
        (f"1;{SECRET}\n", {"column": "1"}, "semicolons.*--delimiter ';'"),
        (f"1;{SECRET}\n", {}, "semicolons.*--delimiter ';'"),
        (f"0,{SECRET}\n", {}, "decimal comma.*--decimal ','"),
        (f"value\n0,{SECRET}\n", {}, "decimal comma.*--decimal ','"),
        ('day,watts\n1,"8,419"\n', {"column": "watts"}, "thousands.*decimal comma"),
        (f"day;watts\n1;0,{SECRET}\n", {"column": "watts", "delimiter": ";"}, "--decimal ','"),
    ],
)
def test_the_message_names_the_option(
    tmp_path: Path, text: str, options: dict[str, str], told: str
) -> None:
    """It says what was seen in structure, and shows nothing of the content."""
    with pytest.raises((InputError, SettingError), match=told) as refused:
        read(csv(tmp_path, text), **options)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"delimiter": "x"}, "delimiter"),
        ({"decimal": ";"}, "decimal"),
        ({"decimal": ","}, "decimal"),  # with commas between fields
        ({"delimiter": ";", "format": "jsonl", "column": "a"}, "delimiter"),
    ],
)
def test_dialects_that_cannot_be(tmp_path: Path, options: dict[str, str], name: str) -> None:
    with pytest.raises(SettingError, match=f"^{name}: "):
        read(csv(tmp_path, "1\n"), **options)


def test_a_point_is_no_decimal_sign_beside_a_comma(tmp_path: Path) -> None:
    """1.234 would be a thousand to those who write decimal commas, and 1.2 to everybody else."""
    for rows in (1, 2000):
        path = csv(tmp_path, "1.234\n" * rows)
        with pytest.raises(InputError, match="row 0, column 0 is not a number"):
            read(path, delimiter=";", decimal=",")


@pytest.mark.parametrize(("first", "doubted"), [(45_292.25, True), (1_704_067_200, False)])
def test_days_of_a_spreadsheet_are_doubted_as_times(
    tmp_path: Path, first: float, doubted: bool
) -> None:
    """They are read as seconds: all rows would lie in one morning of 1970, without a word."""
    rows = [(first + row, 5.0) for row in range(3)]
    text = csv(tmp_path, "".join(f"{time},{value}\n" for time, value in rows))
    table = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"0": [time for time, _ in rows], "1": [5.0] * 3}), table)
    for path in (text, table):
        with open_source(path, column="1", time="0") as source:
            assert source.doubt == ""  # type: ignore[attr-defined]  # nothing was read yet
            assert sum(map(len, source.batches())) == 3
            assert ("1970" in source.doubt) == doubted  # type: ignore[attr-defined]
