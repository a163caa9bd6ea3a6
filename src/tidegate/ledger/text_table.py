"""A ledger as plain text, for terminals and mail."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from tidegate.errors import SettingError
from tidegate.ledger.entries import shown

if TYPE_CHECKING:
    from tidegate.guarantee import Guarantee
    from tidegate.ledger.ledger import Ledger

_EPOCH_SHOWN = 8
_RIGHT = ("ε", "δ")  # numbers, set flush right


def table(ledger: Ledger) -> str:
    """All charges, their sum on each range, and the totals."""
    parts = [_charges(ledger)]
    if any(len(ledger.ranges(source)) > 1 for source in ledger.sources):
        parts.append(_ranges(ledger))
    parts.append(_totals(ledger))
    if ledger.torn:
        parts.append(
            f"The last {ledger.torn} bytes are an unfinished entry: it is being written, or was "
            "cut short. Nothing was released under it."
        )
    return "\n\n".join(parts)


def _charges(ledger: Ledger) -> str:
    rows = [
        (
            charge.source,
            _span(charge.start, charge.end),
            charge.stage,
            charge.epoch[:_EPOCH_SHOWN],
            *_numbers(charge.guarantee),
            f"{charge.time:%Y-%m-%d %H:%M:%S}",
        )
        for charge in ledger.charges()
    ]
    return _aligned(("source", "range", "stage", "epoch", "ε", "δ", "when (UTC)"), rows)


def _ranges(ledger: Ledger) -> str:
    rows = [
        (source, _span(part.start, part.end), *_numbers(part.total), str(len(part.charges)))
        for source in ledger.sources
        for part in ledger.ranges(source)
    ]
    return _aligned(("source", "what a value costs", "ε", "δ", "charges"), rows)


def _totals(ledger: Ledger) -> str:
    cap = "no cap" if ledger.cap is None else f"cap {shown(ledger.cap)}"
    rows = [
        (
            source + (" (disjoint)" if source in ledger.disjoint else ""),
            *_numbers(total := ledger.total(source)),
            f"per {total.unit}",
            _left(ledger.left(source)),
        )
        for source in ledger.sources
    ]
    if len(rows) > 1:
        try:
            total = ledger.total()
            rows.append(("all sources", *_numbers(total), f"per {total.unit}", ""))
        except SettingError:
            rows.append(("all sources", "—", "—", "units or models differ: no total", ""))
    return _aligned(("total", "ε", "δ", "", cap), rows)


def _numbers(guarantee: Guarantee) -> tuple[str, str]:
    return shown(Fraction(guarantee.epsilon)), shown(Fraction(guarantee.delta))


def _span(start: int, end: int | None) -> str:
    return f"[{start}, {'…' if end is None else end})"


def _left(left: Fraction | None) -> str:
    if left is None:
        return ""
    return f"{shown(left)} left" if left >= 0 else f"over it by {shown(-left)}"


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if name in _RIGHT else cell.ljust(width)
            for name, cell, width in zip(head, row, widths, strict=True)
        ).rstrip()
        for row in (head, rule, *rows)
    )
