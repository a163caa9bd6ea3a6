"""Rows of many keys as lines of text: CSV or JSON.

Numbers are written as in files of one stream (`io.released_row_text`). A stream repeats a forecast
over a whole cell, so the numbers of a key come in runs, though its rows are scattered among those
of other keys: numbers are turned into text key by key, each run once for all rows of a call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.clock import Clock
from tidegate.io.output_file_or_pipe import Bytes
from tidegate.io.released_row_text import (
    number_as_text,
    released_json_number,
    released_number_texts,
)
from tidegate.keyed.keyed_rows import KeyedRowGroups, KeyedRowRuns, KeyedRows
from tidegate.lattice import FloatArray, IntArray
from tidegate.tables.arrow import texts_to_arrow, to_arrow
from tidegate.tables.optional_libraries import require_library_for_files

_PIECE = 1 << 15  # rows that become lines at once: what they need fits into a cache
_FEW = 64  # up to here plain Python is faster
_REPEATED = 4  # times that a position comes, from which on its text is kept
_SIGNS = '"\n\r'  # of CSV, besides what separates fields


def names_of_keyed_row(*, timed: bool) -> list[str]:
    """The names of the columns, in order."""
    return ["key", *(["time"] if timed else []), "position", "value", "level"]


class KeyedRowText:
    """Turns rows into lines of CSV or JSON.

    Args:
        json_lines: whether rows are JSON objects.
        clock: how times are written, if rows have them.
        delimiter: what separates fields of CSV.
    """

    def __init__(self, *, json_lines: bool, clock: Clock | None, delimiter: str = ",") -> None:
        self._json, self._clock = json_lines, clock
        self._number: Callable[[float], str] = (
            released_json_number if json_lines else number_as_text
        )
        names = names_of_keyed_row(timed=clock is not None)
        self._delimiter, self._signs = delimiter, delimiter + _SIGNS
        self._between = [delimiter] * (len(names) - 1)
        self._before, self._after = "", "\n"
        self._keys: list[str] = []  # as they are written
        self._quoted = False  # whether a sign of CSV stands in one of them
        if json_lines:
            labels = [f'"{name}":' for name in names]
            self._before, self._after = "{" + labels[0], "}\n"
            self._between = [f",{label}" for label in labels[1:]]

    def lines(self, rows: KeyedRows) -> Iterator[Bytes]:
        """One line for each row, in pieces."""
        more = [self._key(name) for name in rows.names[len(self._keys) :]]
        self._keys += more
        self._quoted |= any(sign in key for key in more for sign in self._signs)
        if len(rows) <= _FEW:
            yield self._few_lines(rows)
            return
        require_library_for_files("pyarrow")
        keys, codes = texts_to_arrow(self._keys), rows.codes.astype(np.int32)
        positions, numbers = _whole_row_texts(rows.positions), self._numbers(rows)
        for start in range(0, len(rows), _PIECE):
            here = slice(start, start + _PIECE)
            texts = [keys.take(to_arrow(codes[here]))]
            texts += [texts_to_arrow(times) for times in self._times(rows, here)]
            texts.append(positions(here))
            texts += [distinct.take(to_arrow(places[here])) for distinct, places in numbers]
            lines = self._json or self._quoted
            yield self._joined(texts) if lines else _separated_row_text(texts, self._delimiter)

    def _few_lines(self, rows: KeyedRows) -> Bytes:
        columns = [
            [self._keys[code] for code in rows.codes.tolist()],
            *self._times(rows, slice(None)),
            map(str, rows.positions.tolist()),
            map(self._number, rows.values.tolist()),
            map(self._number, rows.levels.tolist()),
        ]
        found = []
        for first, *others in zip(*columns, strict=True):
            pairs = zip(self._between, others, strict=True)
            rest = "".join([mark + text for mark, text in pairs])
            found.append(f"{self._before}{first}{rest}{self._after}")
        return "".join(found).encode()

    def _joined(self, columns: list[Any]) -> Bytes:
        compute = require_library_for_files("pyarrow.compute")
        *signs, nothing = texts_to_arrow([self._before, *self._between, self._after, ""])
        texts = [column.cast("string") for column in columns]
        parts = [part for pair in zip(signs, texts, strict=False) for part in pair]
        joined = compute.binary_join_element_wise(*parts, signs[-1], nothing)
        _, offsets, data = joined.buffers()  # the lines stand one after another in memory
        start, end = np.frombuffer(offsets, dtype=np.int32)[[0, len(joined)]]
        return memoryview(data)[start:end]

    def _key(self, name: str) -> str:
        if self._json:
            return json.dumps(name, ensure_ascii=False)
        if any(sign in name for sign in (self._delimiter, '"')) or name != name.strip():
            return '"' + name.replace('"', '""') + '"'
        return name

    def _times(self, rows: KeyedRows, here: slice) -> list[Sequence[str]]:
        if self._clock is None or rows.times is None:
            return []
        texts = self._clock.texts(rows.times[here])
        if self._json:
            texts = [one if one.lstrip("-").isdigit() else f'"{one}"' for one in texts]
        return [texts]

    def _numbers(self, rows: KeyedRows) -> list[tuple[Any, NDArray[np.int32]]]:
        """The texts of values and of levels from Arrow, and which of them each row has."""
        groups = rows.groups or KeyedRowGroups(rows.codes)
        found = []
        for column in (rows.values, rows.levels):
            of_row, first = rows.runs or _runs_of_keyed_rows(column, groups)
            numbers = column[first]
            if self._json and not np.isfinite(numbers).all():
                texts = texts_to_arrow([released_json_number(value) for value in numbers.tolist()])
            else:
                texts = released_number_texts(numbers, require_library_for_files("pyarrow"))
            found.append((texts, of_row))
        return found


def _whole_row_texts(numbers: IntArray) -> Callable[[slice], Any]:
    """The texts of integers, one slice at a time.

    Keys move on side by side, so rows of a call have the same positions again and again: each text
    is made once, if there are few enough of them.
    """
    lowest, highest = int(numbers.min()), int(numbers.max())
    if _REPEATED * (highest - lowest + 1) > numbers.size:
        return lambda here: to_arrow(numbers[here])
    texts = to_arrow(np.arange(lowest, highest + 1)).cast("string")
    places = (numbers - lowest).astype(np.int32)
    return lambda here: texts.take(to_arrow(places[here]))


def _runs_of_keyed_rows(values: FloatArray, groups: KeyedRowGroups) -> KeyedRowRuns:
    """Runs of equal numbers, key by key."""
    bits = groups.by_key(values).view(np.int64)  # by its bits: −0 is not 0, and NaN is NaN
    begins = np.ones(bits.size, dtype=np.bool_)
    np.not_equal(bits[1:], bits[:-1], out=begins[1:])
    of_row = groups.as_given(np.cumsum(begins, dtype=np.int32) - np.int32(1))
    return KeyedRowRuns(of_row, groups.order[np.flatnonzero(begins)])


def _separated_row_text(columns: list[Any], delimiter: str) -> Bytes:
    """Lines from columns without delimiters, quotation marks or line ends in them."""
    arrow, arrow_csv = (
        require_library_for_files("pyarrow"),
        require_library_for_files("pyarrow.csv"),
    )
    rows = arrow.record_batch(columns, names=[str(index) for index in range(len(columns))])
    out = arrow.BufferOutputStream()
    options = arrow_csv.WriteOptions(
        include_header=False,
        quoting_style="none",
        batch_size=rows.num_rows,
        delimiter=delimiter,
    )
    arrow_csv.write_csv(rows, out, options)
    return memoryview(out.getvalue())
