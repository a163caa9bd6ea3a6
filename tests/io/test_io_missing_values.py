"""No value, missing or not, shifts a position, changes a length or becomes the name of a column.

Neighbouring streams differ in one value at one position. Each layout below is a file with places
for values; whatever is put into one place, all others are read as before, and there are as many
rows, or there is an error that names this row.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.io.test_io_text_sources import outcome
from tidegate.cli.app import app
from tidegate.errors import InputError, SettingError
from tidegate.io import open_source
from tidegate.io.column_choice import WantedColumn
from tidegate.io.csv_rows import CsvRows
from tidegate.io.json_rows import JsonRows

MISSING = ["", "nan", "NaN", "NAN", "null", " ", "\t", '""', "Null"]
NUMBERS = ["0", "-0", "7", "1e400", "-5", "0.5", "inf", "Infinity", "1e5", "9" * 400]
TEXTS = [
    "abc",
    "watts",
    "load",
    "0x10",
    "1_000",
    "'7'",
    "none",
    "é",
    "N/A",
    "user",
    "position",
    "1 2",
]
CSV = {
    # name: (the lines around values, settings)
    "one column": ("{}\n{}\n{}\n", {}),
    "one column, CRLF": ("{}\r\n{}\r\n{}\r\n", {}),
    "one column, mark": ("\ufeff{}\n{}\n{}\n", {}),
    "one column, number": ("{}\n{}\n{}\n", {"column": "0"}),
    "one column, said to be rows": ("{}\n{}\n{}\n", {"header": False}),
    "one column, name": ("load\n{}\n{}\n{}\n", {"column": "load"}),
    "one column, default name": ("value\n{}\n{}\n{}\n", {}),
    "one column, said to have a name": ("any 5\n{}\n{}\n{}\n", {"header": True}),
    "two columns, number": ("a,{}\nb,{}\nc,{}\n", {"column": "1"}),
    "two columns, numbers": ("5,{}\n6,{}\n7,{}\n", {"column": "1", "header": False}),
    "two columns, name": ("time,load\n5,{}\n6,{}\n7,{}\n", {"column": "load"}),
    "users": ("{},ann\n{},bo\n{},ann\n", {"column": "0", "user_column": "1"}),
    "users, default column": ("{},ann\n{},bo\n{},ann\n", {"user_column": "1"}),
    "users by name": ("value,who\n{},ann\n{},bo\n{},ann\n", {"user_column": "who"}),
}  # fmt: skip


def csv_rows(settings):
    wanted = [WantedColumn(settings.get("column"))]
    if "user_column" in settings:
        wanted.append(WantedColumn(settings["user_column"], "user_column", numeric=False))
    return CsvRows(wanted, settings.get("header"))


@pytest.mark.parametrize("layout", CSV)
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_csv_value_changes_no_other_row(layout, fast, place):
    # Catches: a first row taken for a header, a blank last line that is dropped.
    text, settings = CSV[layout]
    small = 0 if fast else 1 << 30
    expected, problem = outcome(csv_rows(settings), text.format(1, 2, 3).encode(), [], small)
    assert not problem
    for value in MISSING + NUMBERS + TEXTS:
        values = [1, 2, 3]
        values[place] = value
        found, problem = outcome(csv_rows(settings), text.format(*values).encode(), [], small)
        rows, others = eval(found, {"nan": None, "inf": 0}), eval(expected)  # ours
        if value in TEXTS:
            assert rows == others[:place]
            assert f"value at row {place}, column" in problem
            assert value not in problem or value in ("load", "user")
        else:
            assert not problem
            assert [row[1:] for row in rows] == [row[1:] for row in others]
            assert rows[:place] + rows[place + 1 :] == others[:place] + others[place + 1 :]
            assert (rows[place][0] is None) == (value in MISSING)


@pytest.mark.parametrize("ending", ["", "\n", "\n\n"])
def test_rows_are_line_ends(write, read, ending):
    # A last line without its end counts; blank lines at the end are missing values.
    assert read(write("s.csv", f"1\n2{ending}".encode())) == [1, 2, None][: 2 + (ending == "\n\n")]
    text = f'{{"v":1}}\n{{"v":2}}{ending}'.encode()
    assert read(write("s.jsonl", text), column="v") == [1, 2, None][: 2 + (ending == "\n\n")]
    assert (
        read(write("s.csv", b"\n1\n" + ending.encode())) == [None, 1, None, None][: 2 + len(ending)]
    )


def test_all_values_missing(write, read, tmp_path):
    assert read(write("s.csv", b"\n" * 1000)) == [None] * 1000
    assert read(write("s.csv", b"\n" * 5000 + b"7\n")) == [None] * 5000 + [7]
    assert read(write("s.csv", b",\n" * 1000), column="1") == [None] * 1000
    assert read(write("s.jsonl", b"{}\n" * 1000), column="v") == [None] * 1000
    pq.write_table(pa.table({"v": pa.nulls(1000)}), tmp_path / "s.parquet")
    assert read(tmp_path / "s.parquet") == [None] * 1000


JSON_VALUES = {
    '{"load":7,"who":"a"}': 7.0,
    '{"load":null,"who":"a"}': None,
    '{"who":"a"}': None,
    "{}": None,
    "": None,
    '{"load":NaN}': None,
    '{"nested":{"load":5}}': None,
    '{"load":"7"}': "column 'load' is not a number",
    '{"load":[7]}': "column 'load' is not a number",
    '{"load":7': "is not complete JSON",
    "7": "is not a JSON object",
}


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("user", [None, "who"])
def test_a_json_value_changes_no_other_row(fast, place, user):
    # Catches: a first row without the key, or with other keys, that decides anything.
    wanted = [WantedColumn("load")]
    if user:
        wanted.append(WantedColumn(user, "user_column", numeric=False))
    for value, meaning in JSON_VALUES.items():
        lines = ['{"load":1,"who":"u"}', '{"load":2,"who":"v"}', '{"load":3,"who":"w"}']
        lines[place] = value
        data = "".join(f"{line}\n" for line in lines).encode()
        found, problem = outcome(JsonRows(wanted), data, [], 0 if fast else 1 << 30)
        rows = [row[0] for row in eval(found, {"nan": None})]  # ours
        if isinstance(meaning, str):
            assert rows == [1, 2, 3][:place]
            assert f"row {place}" in problem
            assert meaning in problem
        else:
            assert not problem
            assert rows == [*[1, 2, 3][:place], meaning, *[1, 2, 3][place + 1 :]]


def test_json_lines_need_a_key_always(write):
    for text in (b"", b'{"value":1}\n', b"{}\n"):
        with pytest.raises(SettingError, match=r"^column: is missing"):
            open_source(write("s.jsonl", text))


@pytest.mark.parametrize(
    "kind",
    [pa.int64(), pa.uint64(), pa.float32(), pa.float16(), pa.bool_(), pa.decimal128(9, 2),
     pa.decimal256(50, 3), pa.null(), pa.dictionary(pa.int32(), pa.int64()),
     pa.dictionary(pa.int8(), pa.float64()), pa.dictionary(pa.int8(), pa.decimal128(9, 2))],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_parquet_value_changes_no_other_row(tmp_path, read, kind, place):
    for missing in ([place], [0, 1, 2]):
        values = [None if at in missing or kind == pa.null() else 1 for at in range(3)]
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        column = pa.array(values) if kind == pa.null() else pa.array(values, pa.int64())
        if pa.types.is_decimal(plain):
            column = column.cast(pa.decimal128(19))
        column = column.cast(plain)
        if plain != kind:
            column = column.dictionary_encode().cast(kind)
        pq.write_table(pa.table({"v": column, "u": pa.nulls(3)}), tmp_path / "s.parquet")
        expected = [None if value is None else 1 for value in values]
        assert read(tmp_path / "s.parquet", column="v", user_column="u") == expected


HOLDOUT = ["--epsilon", "9", "--bound", "99", "--holdout", "4", "--horizon", "64"]
FILES = {
    "one column": ("s.csv", "{}\n" * 40, []),
    "a name": ("s.csv", "load\n" + "{}\n" * 40, ["--column", "load"]),
    "a number": ("s.csv", "x,{}\n" * 40, ["--column", "1"]),
    "keys": ("s.jsonl", '{{"load":{}}}\n' * 40, ["--column", "load"]),
}


@pytest.mark.parametrize("layout", FILES)
@pytest.mark.parametrize("place", [0, 1, 39])
def test_a_released_stream_has_the_length_of_the_input(tmp_path, layout, place):
    name, text, options = FILES[layout]
    absent = "null" if name == "s.jsonl" else ""
    for value in ("5", absent, "nan" if absent == "" else "NaN"):
        values = ["5"] * 40
        values[place] = value
        (tmp_path / name).write_text(text.format(*values))
        result = CliRunner().invoke(app, ["release", str(tmp_path / name), *options, *HOLDOUT])
        assert result.exit_code == 0, result.output
        header = name != "s.jsonl"  # what comes out has the format of what goes in
        assert result.stdout.count("\n") == header + 36


def test_a_name_and_no_header_contradict_each_other(write):
    path = write("s.csv", b"load\n1\n")
    with pytest.raises(SettingError, match="'load' is a name"):
        open_source(path, column="load", header=False)
    with pytest.raises(SettingError, match=r"^header: is for CSV"):
        open_source(write("s.jsonl", b"{}\n"), column="load", header=True)


def test_numbers_of_columns(write, read):
    path = write("s.csv", b"2020,load\n1,2\n")
    assert read(path, column="2020", header=True) == [1]
    assert read(path, column="0", header=True) == [1]
    with pytest.raises(SettingError, match="there is no 2020: row 0 has 2 fields"):
        read(path, column="2020")
    for absurd in ("9" * 5000, "٣", "-1"):
        with pytest.raises(SettingError):
            read(path, column=absurd)
    with pytest.raises(SettingError, match="is used already"):
        read(path, column="1", user_column="1")
    with pytest.raises(InputError, match=r"row 0 has several fields; --column chooses one"):
        read(path)


def test_nothing_of_a_first_line_is_shown_unless_it_is_said_to_be_names(write):
    secret = "Zq7secret"
    shapes = [f'{{"value":"{secret}"}}\n', f'{{"a":1,"value":"{secret}"}}\n', f"{secret}\n",
              f"1,{secret}\n", f"{secret},{secret}\n", f'"{secret}\n', f"\n{secret}\n"]  # fmt: skip
    asked = [{}, {"column": "0"}, {"column": "load"}, {"column": "1"}, {"header": False}]
    asked += [{"user_column": "who"}, {"user_column": "0"}, {"column": "0", "user_column": "1"}]
    for text in shapes:
        for settings in asked:
            _, problem = outcome(csv_rows(settings), text.encode(), [], 1 << 30)
            assert secret not in problem
    with pytest.raises(SettingError, match=secret):
        open_source(write("s.csv", f"{secret},b\n".encode()), column="load", header=True)
