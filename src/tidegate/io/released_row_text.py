"""Released rows as text. A number has the fewest digits that parse to the same float.

A piece of rows is written by pyarrow, a few rows in plain Python; both write the same bytes, so a
file does not depend on how its rows were split into calls. The form is pyarrow's: `12`, `10.5`,
`1e+20`, `1e-7`; positional from 1e-6 to 1e10.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tidegate.io.output_file_or_pipe import Bytes
from tidegate.lattice import FloatArray
from tidegate.tables.arrow import texts_to_arrow, to_arrow
from tidegate.tables.optional_libraries import require_library_for_files

NAMES = ("time", "position", "value", "level")
PIECE = 1 << 16  # rows turned into text at once
_FEW = 64  # up to here plain Python is faster
_LOW, _HIGH = -7, 10  # decimal exponents between which a number is positional
_ENDLESS = "1e999"  # JSON has no infinity, but this reads back as one


def names_of_released_row(*, leveled: bool, timed: bool) -> tuple[str, ...]:
    """The columns of a released file, in order."""
    return NAMES[0 if timed else 1 : 4 if leveled else 3]


def released_csv_header(names: Sequence[str], delimiter: str = ",") -> bytes:
    """The first line of a file with these columns: position, value, and perhaps more."""
    return (delimiter.join(names) + "\n").encode()


def released_csv_rows(
    first: int,
    numbers: Sequence[FloatArray],
    times: Sequence[str] | None = None,
    *,
    delimiter: str = ",",
) -> Bytes:
    """Lines of time (if given), position, and these columns: value, perhaps level."""
    size = numbers[0].size
    if size <= _FEW:
        texts = [map(number_as_text, column.tolist()) for column in numbers]
        before = [] if times is None else [times]
        rows = zip(*before, map(str, range(first, first + size)), *texts, strict=True)
        return "".join([delimiter.join(row) + "\n" for row in rows]).encode()
    arrow, arrow_csv = (
        require_library_for_files("pyarrow"),
        require_library_for_files("pyarrow.csv"),
    )
    positions = to_arrow(np.arange(first, first + size))
    columns = [positions, *(released_number_texts(column, arrow) for column in numbers)]
    if times is not None:
        columns.insert(0, texts_to_arrow(times))
    rows = arrow.record_batch(columns, names=[str(index) for index in range(len(columns))])
    out = arrow.BufferOutputStream()
    options = arrow_csv.WriteOptions(
        include_header=False, quoting_style="none", batch_size=PIECE, delimiter=delimiter
    )
    arrow_csv.write_csv(rows, out, options)
    return memoryview(out.getvalue())


def released_json_rows(
    first: int, numbers: Sequence[FloatArray], times: Sequence[str] | None = None
) -> Bytes:
    """Lines such as `{"position":0,"value":10.5}`, with a level `,"level":11}`, with a time first.

    A time is text, unless it is a whole number.
    """
    size = numbers[0].size
    names = NAMES[0 if times else 1 :]
    labels = [f'{"," if index else "{"}"{name}":' for index, name in enumerate(names)]
    spelt = [time if time.lstrip("-").isdigit() else f'"{time}"' for time in times or ()]
    if size <= _FEW:
        texts = [map(released_json_number, column.tolist()) for column in numbers]
        before = [] if times is None else [spelt]
        rows = zip(*before, map(str, range(first, first + size)), *texts, strict=True)
        joined = ["".join([*map("".join, zip(labels, row, strict=False)), "}\n"]) for row in rows]
        return "".join(joined).encode()
    arrow, compute = (
        require_library_for_files("pyarrow"),
        require_library_for_files("pyarrow.compute"),
    )
    columns = [to_arrow(np.arange(first, first + size)).cast(arrow.string())]
    for values in numbers:
        if np.isfinite(values).all():
            columns.append(released_number_texts(values, arrow))
        else:
            columns.append(
                texts_to_arrow([released_json_number(value) for value in values.tolist()])
            )
    if times is not None:
        columns.insert(0, texts_to_arrow(spelt))
    *between, closing, nothing = texts_to_arrow([*labels[: len(columns)], "}\n", ""])
    parts = [part for pair in zip(between, columns, strict=True) for part in pair]
    lines = compute.binary_join_element_wise(*parts, closing, nothing)
    _, offsets, data = lines.buffers()  # the lines stand one after another in memory
    start, end = np.frombuffer(offsets, dtype=np.int32)[[0, len(lines)]]
    return memoryview(data)[start:end]


def released_number_texts(values: FloatArray, arrow: Any) -> Any:
    """The numbers as an Arrow array of text. Smoothed streams repeat a value over a whole block, so
    a run of equal ones is turned into text once.
    """
    bits = values.view(np.int64)  # by its bits: −0 is not 0, and NaN is NaN
    starts = np.flatnonzero(np.concatenate(([True], bits[1:] != bits[:-1])))
    if 4 * starts.size > values.size:
        return _distinct_row_numbers(values, arrow)
    lengths = np.diff(np.append(starts, values.size))
    runs = np.repeat(np.arange(starts.size, dtype=np.int32), lengths)
    return _distinct_row_numbers(values[starts], arrow).take(to_arrow(runs))


def _distinct_row_numbers(values: FloatArray, arrow: Any) -> Any:
    small = bool((np.abs(values) < 10**_HIGH).all())  # false for NaN
    if small and bool((np.rint(values) == values).all()):
        zeros_with_sign = (values == 0) & np.signbit(values)
        if not zeros_with_sign.any():  # integers are turned into text several times as fast
            return to_arrow(values.astype(np.int64)).cast(arrow.string())
    return to_arrow(values).cast(arrow.string())


def number_as_text(value: float) -> str:
    """Write one number as pyarrow does.

    >>> [number_as_text(value) for value in (12.0, 10.5, 1e10, 0.00001, -1.5e-7, -0.0)]
    ['12', '10.5', '1e+10', '0.00001', '-1.5e-7', '-0']
    """
    text = repr(value)
    if not math.isfinite(value) or ("e" not in text and abs(value) < 10**_HIGH):
        return text.removesuffix(".0")
    sign = "-" if text[0] == "-" else ""
    mantissa, _, exponent_text = text.lstrip("-").partition("e")
    whole, _, decimals = mantissa.partition(".")
    exponent = int(exponent_text or 0) + len(whole) - 1
    digits = (whole + decimals).rstrip("0")
    if _LOW < exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    point = "." if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{point}{digits[1:]}e{exponent:+d}"


def released_json_number(value: float) -> str:
    """Write one number in JSON, which has neither NaN nor infinity."""
    if math.isfinite(value):
        return number_as_text(value)
    return "null" if math.isnan(value) else _ENDLESS if value > 0 else "-" + _ENDLESS
