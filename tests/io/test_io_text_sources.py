"""CSV and JSON Lines: what a row means, in every spelling and however it is cut into blocks."""

from __future__ import annotations

import io
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tests.depth import examples
from tests.texts import texts
from tidegate.errors import InputError, SettingError
from tidegate.io import KINDS, lines, open_source, text_source
from tidegate.io.column_choice import WantedColumn
from tidegate.io.csv_rows import CsvRows
from tidegate.io.json_rows import JsonRows
from tidegate.io.text_source import TextSource

PACKINGS = ["", ".gz", ".zst"]


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize(
    "text",
    [
        b"value\n1\n2.5\n\n-3\n",
        b"1\n2.5\n\n-3\n",
        b"\xef\xbb\xbfvalue\r\n1\r\n2.5\r\nnan\r\n-3\r\n",
        b"\xef\xbb\xbf1\r\n2.5\r\n\r\n-3\r\n",
        b" value \n 1 \n\t2.5\nNULL\n-3",
        b'"value"\n"1"\n"2.5"\n""\n"-3"\n',
        b"time,value\na,1\nb,2.5\nc,\nd,-3\n",
        b"time,value\na,1\nb,2.5\n\nd,-3\n",
        b'value,note\n1,"x,y"\n2.5,"say ""hi"""\nNaN,\n-3,z\n',
    ],
)
def test_csv_in_many_spellings(write, read, text, packing):
    assert read(write("s.csv" + packing, text)) == [1.0, 2.5, None, -3.0]


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("ending", [".jsonl", ".ndjson"])
def test_json_lines_in_many_spellings(write, read, ending, packing):
    text = (
        b'{"value": 1, "x": [1, {"a": 2}]}\n{"value":2.5}\r\n{"x":0}\n\n'
        b' {"x":"a\\nb","value":null} \n{"value":NaN}\n{"value":true}\n{"value":-3e0}\n\n'
    )
    expected = [1.0, 2.5, None, None, None, None, 1.0, -3.0, None]
    assert read(write("s" + ending + packing, text), column="value") == expected


@pytest.mark.parametrize("name", ["s.csv", "s.jsonl", "s.csv.gz", "s.csv.zst"])
def test_nothing_in_it(write, read, name):
    assert read(write(name, b""), column="value") == []
    assert read(write("s.csv", b"\n\n"), column="value") == []  # before a header


def test_a_header_alone_is_no_row(write, read):
    assert read(write("s.csv", b"value\n")) == []
    assert read(write("s.csv", b"value")) == []


def test_columns_by_name_and_by_index(write, read):
    path = write("s.csv", b"time,load,2020\n1,2,3\n4,5,6\n")
    assert read(path, column="load") == [2, 5]
    assert read(path, column="load", user_column="time") == [2, 5]
    bare = write("bare.csv", b"1,2,3\n4,5,6\n")
    assert read(bare, column="1") == [2, 5]
    assert read(bare, column="0") == [1, 4]


def test_a_number_called_like_an_index_is_no_header(write, read):
    assert read(write("s.csv", b"0\n5\n"), column="0") == [0, 5]


@pytest.mark.parametrize("rows", [3, 3000])  # read row by row, and as a block
def test_users(write, rows):
    path = write("s.csv", b"user,value\n" + b'ann,1\n"b ""o"" b",2\n,3\n' + b"ann,4\n" * (rows - 3))
    with open_source(path, user_column="user") as source:
        batch = next(source.batches())
    assert batch.users is not None
    assert batch.users.tolist()[:4] == ["ann", 'b "o" b', None, "ann"][:rows]
    assert batch.values.tolist()[:3] == [1, 2, 3]
    assert "ann" not in repr(batch)


@pytest.mark.parametrize("rows", [3, 3000])
@pytest.mark.parametrize(
    ("users", "expected"),
    [(["ann", None, ""], ["ann", None, None]), ([7, None, 2**62], [7, None, 2**62])],
)
def test_users_of_json_lines(write, rows, users, expected):
    lines_ = [json.dumps({"value": 1, "id": user}) for user in users] * (rows // 3)
    path = write("s.jsonl", "\n".join(lines_).encode())
    with open_source(path, column="value", user_column="id") as source:
        found = np.concatenate([batch.users for batch in source.batches()])
    assert found.tolist() == expected * (rows // 3)
    assert [type(user) for user in found[:3]] == [type(user) for user in expected]


def test_numbers_beyond_every_type(write, read):
    digits = b"9" * 5000
    expected = [math.inf, -math.inf, 2.0**63, math.inf]
    for times in (1, 2):
        rows = [digits, b"-" + digits, b"9223372036854775808", b"1e999"] * times
        assert read(write("s.csv", b"\n".join(rows))) == expected * times
        objects = b"\n".join(b'{"value":%s}' % row for row in rows)
        assert read(write("s.jsonl", objects), column="value") == expected * times


def test_a_line_without_an_end_is_an_error_not_all_memory(write, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_LINE", 1 << 21)
    path = write("s.csv", b"1\n2\n" + b"3" * (1 << 22))
    with open_source(path) as source:
        batches = source.batches()
        assert next(batches).values.tolist() == [1, 2]
        with pytest.raises(InputError, match="row 2 is longer than"):
            next(batches)


def test_standard_input_without_a_descriptor(monkeypatch, read):
    class StandIn(io.TextIOWrapper):
        def fileno(self) -> int:
            raise io.UnsupportedOperation

    for path in (None, "-"):
        monkeypatch.setattr(sys, "stdin", StandIn(io.BytesIO(b"1\n2\n")))
        assert read(path) == [1, 2]


def test_kinds_are_the_formats(write, read):
    assert {"csv", "jsonl", "parquet"} <= set(KINDS)
    assert read(write("strange.log", b"1\n"), format="csv") == [1]
    with pytest.raises(SettingError, match=r"csv, csv\.gz"):
        open_source("strange.log")
    with pytest.raises(SettingError, match="xml"):
        open_source("s.csv", format="xml")
    with pytest.raises(SettingError):
        open_source("s.parquet.gz")


# -- two readers, one meaning ------------------------------------------------------------------


class Given:
    """Bytes in reads of these lengths."""

    name, size, followed = "given", None, False

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data, self._sizes = data, sizes or [1 << 20]

    def read(self, count: int) -> bytes:
        size = self._sizes[0]
        self._sizes = self._sizes[1:] + self._sizes[:1]
        piece, self._data = self._data[:size], self._data[size:]
        return piece

    def fraction(self) -> None:
        return None

    def close(self) -> None:
        pass


def outcome(rows, data: bytes, sizes: list[int], small: int) -> tuple[list, str]:
    """Everything delivered, and the error if one ended it."""
    wanted = rows._wanted
    found: list = []
    source = TextSource(Given(data, sizes), rows, wanted)
    before, text_source._SMALL = text_source._SMALL, small
    try:
        for arrays in source.arrays():
            found += zip(*(array.tolist() for array in arrays), strict=True)
    except (InputError, SettingError) as error:
        return repr(found), str(error)
    finally:
        text_source._SMALL = before
    return repr(found), ""


NUMBERS = st.one_of(
    st.integers().map(str),
    st.floats().map(repr),
    st.sampled_from(
        [
            "",
            "nan",
            "NaN",
            "null",
            "-nan",
            "nan(1)",
            "inf",
            "-Infinity",
            "+5",
            ".5",
            "5.",
            "1e5",
            "0x10",
            "1_000",
            "1e400",
            "-0",
            "1d5",
            " 7 ",
            "\t7",
            '"7"',
            '" 7"',
            '"7"8',
            '7"8"',
            '"7',
            "1\r2",
            "٣",
            "7\x00",
            "true",
            "é",
            "--5",
            "1 2",
            "'7'",
            "NULL",
            "1,2",
        ]
    ),
    st.text(alphabet='0159.,-+eE"n \r\t', max_size=6),
)
USERS = st.sampled_from(["ann", "", " bo ", '"c,d"', '"e""f"', '"g', 'h"i"', "null", "ü", "1"])
SIZES = st.lists(st.integers(1, 40), max_size=4)


@settings(max_examples=examples(250), deadline=None)
@given(values=st.lists(NUMBERS, max_size=8), users=st.lists(USERS, min_size=8), sizes=SIZES)
def test_csv_means_the_same_however_it_is_cut(values, users, sizes):
    wanted = [WantedColumn("value"), WantedColumn("user", "user_column", numeric=False)]
    rows = [f"{value},{user}\n" for value, user in zip(values, users, strict=False)]
    data = ("value,user\n" + "".join(rows)).encode()
    slow = outcome(CsvRows(wanted), data, [], 1 << 30)
    assert outcome(CsvRows(wanted), data, [], 0) == slow
    assert outcome(CsvRows(wanted), data, sizes, 0) == slow
    assert outcome(CsvRows(wanted), data, sizes, 1 << 30) == slow


@settings(max_examples=examples(200), deadline=None)
@given(values=st.lists(NUMBERS, max_size=8), sizes=SIZES)
def test_one_column_means_the_same_however_it_is_cut(values, sizes):
    data = ("value\n" + "".join(f"{value}\n" for value in values)).encode()
    slow = outcome(CsvRows([WantedColumn(None)]), data, [], 1 << 30)
    assert outcome(CsvRows([WantedColumn(None)]), data, [], 0) == slow
    assert outcome(CsvRows([WantedColumn(None)]), data, sizes, 0) == slow


JSON_ROWS = st.one_of(
    st.fixed_dictionaries(
        {"value": st.none() | st.integers() | st.floats() | st.booleans() | texts(max_size=2)},
        optional={
            "user": st.none() | texts(max_size=3) | st.integers(),
            "x": st.lists(st.none()),
        },
    ).map(json.dumps),
    st.sampled_from(
        [
            "",
            "{}",
            "[1]",
            "5",
            '{"value":1',
            '{"value":1}{"value":2}',
            '{"value":1} x',
            "{'value':1}",
            '{"value":1,"value":2}',
            '{"value":-0}',
            '{"value":1e400}',
            '{"value":01}',
            '\t{"value":1}',
            '{"value":1,"x":"\ud800"}'.encode("utf-8", "surrogatepass").decode("latin-1"),
            "null",
            '{"value":1,"user":"\\ud800"}',
            '{"value":1,"x":"\\ud800"}',
            '{"x":{}',
            ',"value":1}',
        ]
    ),
)


@settings(max_examples=examples(250), deadline=None)
@given(rows=st.lists(JSON_ROWS, max_size=6), sizes=SIZES, end=st.sampled_from(["\n", "\r\n"]))
def test_json_lines_mean_the_same_however_they_are_cut(rows, sizes, end):
    wanted = [WantedColumn("value"), WantedColumn("user", "user_column", numeric=False)]
    data = "".join(row + end for row in ['{"value":0,"user":"a"}', *rows]).encode("utf-8")
    slow = outcome(JsonRows(wanted), data, [], 1 << 30)
    assert outcome(JsonRows(wanted), data, [], 0) == slow
    assert outcome(JsonRows(wanted), data, sizes, 0) == slow


@pytest.mark.parametrize(
    "times",
    [
        [f"2024-01-{day:02}T00:00:00Z" for day in range(1, 31)],
        [f"2024-01-{day:02} 12:00+01:00" for day in range(1, 31)],
        list(range(1_706_745_600, 1_706_745_630)),
        list(range(1_706_745_600_000_000_000, 1_706_745_600_000_000_030)),
        [1_706_745_600.25 + second for second in range(30)],
        [1_706_745_600_000.5 + step for step in range(30)],  # declined: floats of milliseconds
        [1_706_745_600, *(1_706_745_601.5 + second for second in range(29))],
    ],
)
def test_json_times_are_read_in_blocks_and_mean_the_same(tmp_path: Path, times: list[Any]) -> None:
    path = tmp_path / "in.jsonl"
    pad = "x" * 100  # a block is read at once if it is long enough
    rows = [{"value": at, "when": when, "pad": pad} for at, when in enumerate(times)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with open_source(path, column="value", time="when") as source:
        blocks = [batch.times for batch in source.batches()]
    one_by_one = [tg.read_times([when]).ticks[0] for when in times]
    assert np.concatenate([block.ticks for block in blocks]).tolist() == one_by_one
    layout = JsonRows(
        [WantedColumn("value"), WantedColumn("when", "time", numeric=False, time=True)]
    )
    layout.one(json.dumps(rows[-1]).encode(), 0)
    declined = layout.many(path.read_bytes(), 30) is None
    assert declined == (times[0] == 1_706_745_600_000.5)
