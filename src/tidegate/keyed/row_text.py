"""Released rows of many keys as text: key, time if they have one, position, value, level.

Numbers are written as in files of one stream (`tidegate.io.row_text`); bytes do not depend on how
rows were split into calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tidegate.clock import Clock
from tidegate.io.optional import require
from tidegate.io.outgoing import Bytes
from tidegate.io.row_text import json_number, number, texts_of
from tidegate.keyed.rows import KeyedRows
from tidegate.lattice import FloatArray

_FEW = 64  # up to here plain Python is faster


def names_of(*, timed: bool) -> list[str]:
    """The columns, in order."""
    return ["key", *(["time"] if timed else []), "position", "value", "level"]


class RowText:
    """Turns rows into lines of CSV or JSON.

    Args:
        json_lines: whether rows are JSON objects.
        clock: how times are written, if rows have them.
    """

    def __init__(self, *, json_lines: bool, clock: Clock | None) -> None:
        self._json, self._clock = json_lines, clock
        self._number: Callable[[float], str] = json_number if json_lines else number
        names = names_of(timed=clock is not None)
        self._between = [","] * (len(names) - 1)
        self._before, self._after = "", "\n"
        self._keys: list[str] = []  # as they are written
        if json_lines:
            labels = [f'"{name}":' for name in names]
            self._before, self._after = "{" + labels[0], "}\n"
            self._between = [f",{label}" for label in labels[1:]]

    def lines(self, rows: KeyedRows) -> Bytes:
        """One line for each row."""
        self._keys += [self._key(name) for name in rows.names[len(self._keys) :]]
        if len(rows) <= _FEW:
            columns = [
                [self._keys[code] for code in rows.codes.tolist()],
                *self._times(rows),
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
        arrow, compute = require("pyarrow"), require("pyarrow.compute")
        encoded = arrow.DictionaryArray.from_arrays(rows.codes.astype(np.int32), self._keys)
        columns = [
            encoded.cast(arrow.string()),
            *(arrow.array(times) for times in self._times(rows)),
            arrow.array(rows.positions).cast(arrow.string()),
            self._numbers(rows.values, arrow),
            self._numbers(rows.levels, arrow),
        ]
        parts: list[Any] = [self._before, columns[0]]
        for mark, column in zip(self._between, columns[1:], strict=True):
            parts += [mark, column]
        joined = compute.binary_join_element_wise(*parts, self._after, "")
        _, offsets, data = joined.buffers()  # the lines stand one after another in memory
        start, end = np.frombuffer(offsets, dtype=np.int32)[[0, len(joined)]]
        return memoryview(data)[start:end]

    def _key(self, name: str) -> str:
        if self._json:
            return json.dumps(name, ensure_ascii=False)
        if any(sign in name for sign in ',"') or name != name.strip():
            return '"' + name.replace('"', '""') + '"'
        return name

    def _times(self, rows: KeyedRows) -> list[Sequence[str]]:
        if self._clock is None or rows.times is None:
            return []
        texts = self._clock.texts(rows.times)
        if self._json:
            texts = [one if one.lstrip("-").isdigit() else f'"{one}"' for one in texts]
        return [texts]

    def _numbers(self, values: FloatArray, arrow: Any) -> Any:
        if self._json and not np.isfinite(values).all():
            return arrow.array([json_number(value) for value in values.tolist()])
        return texts_of(values, arrow)
