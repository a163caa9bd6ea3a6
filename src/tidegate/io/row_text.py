"""Released rows as text. A number is written with the fewest digits that read back as itself.

A piece of rows is written by pyarrow, a few rows in plain Python; both write the same bytes, so a
file does not depend on how its rows were split into calls. The form is pyarrow's: `12`, `10.5`,
`1e+20`, `1e-7`; positional from 1e-6 to 1e10.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tidegate.io.optional import require
from tidegate.io.outgoing import Bytes
from tidegate.lattice import FloatArray

CSV_HEADER = b"position,value\n"
PIECE = 1 << 16  # rows turned into text at once
_FEW = 64  # up to here plain Python is faster
_LOW, _HIGH = -7, 10  # decimal exponents between which a number is positional
_ENDLESS = "1e999"  # JSON has no infinity, but this reads back as one


def csv_rows(first: int, values: FloatArray) -> Bytes:
    """`position,value` lines."""
    if values.size <= _FEW:
        rows = enumerate(values.tolist(), first)
        return "".join([f"{position},{number(value)}\n" for position, value in rows]).encode()
    arrow, arrow_csv = require("pyarrow"), require("pyarrow.csv")
    positions = arrow.array(np.arange(first, first + values.size))
    rows = arrow.record_batch([positions, _texts(values, arrow)], names=["position", "value"])
    out = arrow.BufferOutputStream()
    options = arrow_csv.WriteOptions(include_header=False, quoting_style="none", batch_size=PIECE)
    arrow_csv.write_csv(rows, out, options)
    return memoryview(out.getvalue())


def json_rows(first: int, values: FloatArray) -> Bytes:
    """`{"position":0,"value":10.5}` lines."""
    if values.size <= _FEW:
        rows = enumerate(values.tolist(), first)
        return "".join(
            [f'{{"position":{position},"value":{_json(value)}}}\n' for position, value in rows]
        ).encode()
    arrow, compute = require("pyarrow"), require("pyarrow.compute")
    texts = _texts(values, arrow)
    if not np.isfinite(values).all():
        texts = arrow.array([_json(value) for value in values.tolist()])
    positions = arrow.array(np.arange(first, first + values.size)).cast(arrow.string())
    lines = compute.binary_join_element_wise(
        '{"position":', positions, ',"value":', texts, "}\n", ""
    )
    _, offsets, data = lines.buffers()  # the lines stand one after another in memory
    start, end = np.frombuffer(offsets, dtype=np.int32)[[0, len(lines)]]
    return memoryview(data)[start:end]


def _texts(values: FloatArray, arrow: Any) -> Any:
    """The numbers as an Arrow array of text. Smoothed streams repeat a value over a whole block, so
    a run of equal ones is turned into text once.
    """
    bits = values.view(np.int64)  # by its bits: −0 is not 0, and NaN is NaN
    starts = np.flatnonzero(np.concatenate(([True], bits[1:] != bits[:-1])))
    if 4 * starts.size > values.size:
        return _distinct(values, arrow)
    lengths = np.diff(np.append(starts, values.size))
    runs = np.repeat(np.arange(starts.size, dtype=np.int32), lengths)
    return _distinct(values[starts], arrow).take(arrow.array(runs))


def _distinct(values: FloatArray, arrow: Any) -> Any:
    small = bool((np.abs(values) < 10**_HIGH).all())  # false for NaN
    if small and bool((np.rint(values) == values).all()):
        zeros_with_sign = (values == 0) & np.signbit(values)
        if not zeros_with_sign.any():  # integers are turned into text several times as fast
            return arrow.array(values.astype(np.int64)).cast(arrow.string())
    return arrow.array(values).cast(arrow.string())


def number(value: float) -> str:
    """One number, as pyarrow writes it.

    >>> [number(value) for value in (12.0, 10.5, 1e10, 0.00001, -1.5e-7, -0.0)]
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


def _json(value: float) -> str:
    if math.isfinite(value):
        return number(value)
    return "null" if math.isnan(value) else _ENDLESS if value > 0 else "-" + _ENDLESS
