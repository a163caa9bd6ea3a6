"""Lines of many rows: the same bytes as row by row, whichever texts were made once."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.keyed.keyed_row_text import KeyedRowText
from tidegate.keyed.keyed_rows import KeyedRows

ROWS = 70_000  # more than two pieces


@pytest.mark.parametrize("json_lines", [False, True])
@pytest.mark.parametrize("spread", [1, 2, 10**9])
@pytest.mark.parametrize("first", [0, 2**40])
def test_positions_are_written_as_they_are(json_lines: bool, spread: int, first: int) -> None:
    """Repeated within a call (spread 1), just not often enough for a table, and far apart."""
    random = np.random.default_rng(7)
    positions = first + spread * random.integers(0, ROWS // 4 - 1, ROWS)
    codes, values = random.integers(0, 3, ROWS), random.integers(-9, 9, ROWS) / 4
    rows = KeyedRows(["a", "b", "c"], codes, positions, values, np.abs(values))
    lines = KeyedRowText(json_lines=json_lines, clock=None)
    many = b"".join(bytes(piece) for piece in lines.lines(rows))
    some = np.r_[0:50, ROWS // 2 : ROWS // 2 + 50, ROWS - 50 : ROWS]
    few = [b"".join(map(bytes, lines.lines(rows.part(some[at : at + 1])))) for at in range(150)]
    written = many.splitlines(keepends=True)
    assert len(written) == ROWS
    assert [written[at] for at in some.tolist()] == few
