"""`tidegate ledger`: what each source was charged, when, and how much of its cap is left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.exit_codes_and_signals import errors_as_exit_codes
from tidegate.errors import SettingError
from tidegate.exact_numbers import said

if TYPE_CHECKING:
    from tidegate.ledger import Ledger

_NAME = "ledger.jsonl"


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
    """Show what each source was charged and when, and what is left.

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
    with errors_as_exit_codes():
        from tidegate.durable.folder_lock import (  # `--help` needs none
            anchor_kept_in_folder,
            keep_anchor_in_folder,
        )
        from tidegate.exact_numbers import positive
        from tidegate.ledger import Ledger
        from tidegate.ledger.ledger_report import ledger_report, report_as_text

        path = _ledger_place(folder)
        anchor = anchor_kept_in_folder(path.parent)  # first: the ledger may grow meanwhile
        if set_cap is not None:
            if cap is not None:
                raise SettingError("cap", "either look (--cap) or write (--set-cap), not both")
            with Ledger.open(path, create=False, expected=anchor) as book:
                book.set_cap(set_cap, note="tidegate ledger --set-cap")
                keep_anchor_in_folder(path.parent, (book.count, book.head))
        with Ledger.open(path, create=False, read_only=True, expected=anchor) as book:
            limit = book.cap if cap is None else positive("cap", cap)
            found = ledger_report(
                book, _chosen_ledger_parts(book, source), limit, assumed=cap is not None
            )
    if as_json:
        typer.echo(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        typer.echo(
            f"{report_as_text(found)}\n\nVerified: {found['entries']} entries, head {found['head']}"
        )


def _ledger_place(folder: Path) -> Path:
    from tidegate.durable import StateError
    from tidegate.durable.folder_lock import anchor_kept_in_folder
    from tidegate.durable.state_stores import NO_LEDGER
    from tidegate.io import SourceError

    path = folder / _NAME if folder.is_dir() else folder
    if not path.exists():
        if anchor_kept_in_folder(path.parent) is not None:
            raise StateError(NO_LEDGER.format(path))
        problem = f"holds no {_NAME}: not a state folder" if folder.is_dir() else "does not exist"
        raise SourceError(None, problem, str(folder))
    return path


def _chosen_ledger_parts(book: Ledger, source: str | None) -> list[str]:
    if source is None:
        return book.sources
    if source not in book.sources:
        known = ", ".join(book.sources) or "none so far"
        raise SettingError("source", f"{said(source)} was never charged; those that were: {known}")
    return [source]
