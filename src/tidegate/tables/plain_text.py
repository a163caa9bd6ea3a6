"""Numbers and tables for people, in plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def plain_number(number: float) -> str:
    """A number for people: four digits, or all before the point.

    >>> plain_number(1234567.89), plain_number(0.0123456), plain_number(-12.5)
    ('1,234,568', '0.01235', '-12.5')
    """
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def plain_percent(confidence: float) -> str:
    """A probability for people, as a percentage.

    >>> plain_percent(0.95), plain_percent(0.9999)
    ('95 %', '99.99 %')
    """
    return f"{100 * confidence:.6g} %"


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], left: int = 1) -> str:
    """Aligned columns as plain text, the first `left` of them flush left."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def plain_time_axis(texts: Sequence[str], width: int) -> str:
    """Times below a line of this many characters: at its start, middle and end, if they fit.

    >>> plain_time_axis(["2024-01-01", "2024-01-16", "2024-02-01"], 40)
    '2024-01-01     2024-01-16     2024-02-01'
    >>> plain_time_axis(["2024-01-01", "2024-01-16", "2024-02-01"], 30)
    '2024-01-01          2024-02-01'
    """
    first, middle, last = texts
    room = width - len(first) - len(last)
    if room >= len(middle) + 4:
        left = max(2, width // 2 - len(middle) // 2 - len(first))
        return f"{first}{' ' * left}{middle}{' ' * (room - left - len(middle))}{last}"
    return f"{first}{' ' * max(2, room)}{last}"
