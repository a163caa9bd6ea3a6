"""`tidegate ledger`: what each source was charged, when, and what is left."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.exits import plain_errors
from tidegate.errors import SettingError
from tidegate.exact_numbers import said
from tidegate.tables.plain_text import table

if TYPE_CHECKING:
    from tidegate.guarantee import Guarantee
    from tidegate.ledger import ChargedRange, Ledger

_NAME = "ledger.jsonl"
_EPOCH_SHOWN = 8


def ledger(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of the durable state, or a ledger file.")
    ],
    cap: Annotated[
        str | None,
        typer.Option(metavar="X", help="Show what would be left of this cap; writes nothing."),
    ] = None,
    set_cap: Annotated[
        str | None,
        typer.Option(metavar="X", help="Set the cap for good; no release may be running."),
    ] = None,
    source: Annotated[str | None, typer.Option(help="Only what this source was charged.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of tables.")
    ] = False,
) -> None:
    """Show who was charged what and when, and what is left of a cap.

    The ledger is verified first, and compared with the anchor in its folder: one that was changed
    or cut short is refused with exit code 3. Reading takes no lock, so it works beside a running
    release. Charges on the same positions add up, charges on disjoint ranges do not: a source has
    spent what its most expensive position cost.

    Examples:

    \b
      tidegate ledger state/
      tidegate ledger state/ --cap 1 --source meters
      tidegate ledger state/ --set-cap 0.5
      tidegate ledger state/ --json
    """  # noqa: D301  # \b keeps the lines of the examples
    with plain_errors():
        from tidegate.durable.folder_lock import keep_anchor, kept_anchor  # `--help` needs none
        from tidegate.exact_numbers import positive
        from tidegate.ledger import Ledger

        path = _place(folder)
        anchor = kept_anchor(path.parent)  # first: the ledger may grow meanwhile
        if set_cap is not None:
            if cap is not None:
                raise SettingError("cap", "either look (--cap) or write (--set-cap), not both")
            with Ledger.open(path, create=False, expected=anchor) as book:
                book.set_cap(set_cap, note="tidegate ledger --set-cap")
                keep_anchor(path.parent, (book.count, book.head))
        with Ledger.open(path, create=False, read_only=True, expected=anchor) as book:
            limit = book.cap if cap is None else positive("cap", cap)
            report = _report(book, _chosen(book, source), limit, assumed=cap is not None)
    typer.echo(json.dumps(report, indent=1, ensure_ascii=False) if as_json else _as_text(report))


def _place(folder: Path) -> Path:
    from tidegate.durable import StateError
    from tidegate.durable.folder_lock import kept_anchor
    from tidegate.durable.store import NO_LEDGER
    from tidegate.io import SourceError

    path = folder / _NAME if folder.is_dir() else folder
    if not path.exists():
        if kept_anchor(path.parent) is not None:
            raise StateError(NO_LEDGER.format(path))
        problem = f"holds no {_NAME}: not a state folder" if folder.is_dir() else "does not exist"
        raise SourceError(None, problem, str(folder))
    return path


def _chosen(book: Ledger, source: str | None) -> list[str]:
    if source is None:
        return book.sources
    if source not in book.sources:
        known = ", ".join(book.sources) or "none so far"
        raise SettingError("source", f"{said(source)} was never charged; those that were: {known}")
    return [source]


def _report(
    book: Ledger, sources: list[str], cap: Fraction | None, *, assumed: bool
) -> dict[str, Any]:
    """Everything as plain data; exact numbers as text."""
    return {
        "entries": book.count,
        "head": book.head,
        "unfinished_bytes": book.torn,
        "cap": None if cap is None else str(cap),
        "cap_assumed": assumed,
        "charges": [
            {
                "sequence": charge.sequence,
                "time": charge.time.isoformat(),
                "source": charge.source,
                "stage": charge.stage,
                "start": charge.start,
                "end": charge.end,
                **_cost(charge.guarantee),
                "epoch": charge.epoch,
                "note": charge.note,
            }
            for charge in book.charges()
            if charge.source in sources
        ],
        "sources": [
            {
                "source": source,
                "disjoint": source in book.disjoint,
                "ranges": [_range_facts(part) for part in book.ranges(source)],
                "total": _cost(book.total(source)),
                "left": None if cap is None else str(cap - Fraction(book.total(source).epsilon)),
            }
            for source in sources
        ],
        "total": _overall(book) if sources == book.sources else None,
    }


def _range_facts(part: ChargedRange) -> dict[str, Any]:
    return {
        "start": part.start,
        "end": part.end,
        **_cost(part.total),
        "charges": [
            {"sequence": charge.sequence, "stage": charge.stage, "epsilon": str(charge.epsilon)}
            for charge in part.charges
        ],
    }


def _cost(guarantee: Guarantee) -> dict[str, str]:
    return {
        "epsilon": str(guarantee.epsilon),
        "delta": str(guarantee.delta),
        "unit": guarantee.unit,
    }


def _overall(book: Ledger) -> dict[str, str] | None:
    """All sources together; None if they cannot be added."""
    try:
        return _cost(book.total())
    except SettingError:  # other units or models
        return None


# -- as text ------------------------------------------------------------------------------------


def _as_text(report: dict[str, Any]) -> str:
    if not report["charges"]:
        parts = ["Nothing was charged yet."]
    else:
        parts = [_charges(report), _ranges(report), _totals(report)]
    if report["unfinished_bytes"]:
        parts.append(
            f"The last {report['unfinished_bytes']} bytes are an unfinished entry: it is being "
            "written, or was cut short. Nothing was released under it."
        )
    parts.append(f"Verified: {report['entries']} entries, head {report['head']}")
    return "\n\n".join(parts)


def _charges(report: dict[str, Any]) -> str:
    rows = [
        (
            charge["time"][:19].replace("T", " "),
            charge["source"],
            charge["stage"],
            _span(charge),
            _number(charge["epsilon"]),
            _number(charge["delta"]),
            charge["epoch"][:_EPOCH_SHOWN],
        )
        for charge in report["charges"]
    ]
    return table(("when (UTC)", "source", "stage", "positions", "ε", "δ", "epoch"), rows, left=4)


def _ranges(report: dict[str, Any]) -> str:
    """The cost of each range: the sum of the charges on it."""
    rows = [
        (
            item["source"],
            _span(part),
            " + ".join(
                f"{charge['stage']} {_number(charge['epsilon'])}" for charge in part["charges"]
            ),
            _number(part["epsilon"]),
            _number(part["delta"]),
        )
        for item in report["sources"]
        for part in item["ranges"]
    ]
    return table(("source", "positions", "charged per value", "ε", "δ"), rows, left=3)


def _totals(report: dict[str, Any]) -> str:
    """The most that any position of a source costs."""
    cap = report["cap"]
    name = "no cap" if cap is None else f"left of {_number(cap)}"
    rows = [
        (
            item["source"] + (" (disjoint)" if item["disjoint"] else ""),
            _number(item["total"]["epsilon"]),
            _number(item["total"]["delta"]),
            f"per {item['total']['unit']}",
            "" if item["left"] is None else _left(item["left"]),
        )
        for item in report["sources"]
    ]
    overall = report["total"]
    if overall is not None and len(rows) > 1:
        numbers = _number(overall["epsilon"]), _number(overall["delta"])
        rows.append(("all sources", *numbers, f"per {overall['unit']}", ""))
    text = table(("the most any value has spent", "ε", "δ", "", name), rows)
    if report["cap_assumed"]:
        text += "\n(This cap is an assumption; --set-cap stores it.)"
    return text


def _left(left: str) -> str:
    return f"over by {_number(left[1:])}" if left.startswith("-") else _number(left)


def _number(text: str) -> str:
    from tidegate.ledger.entries import shown

    return shown(Fraction(text))


def _span(part: dict[str, Any]) -> str:
    end = "…" if part["end"] is None else part["end"]
    return f"[{part['start']}, {end})"
