"""Exit codes, and how errors become one line on stderr: never a traceback, never a value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from tidegate.durable import StateError
from tidegate.errors import (
    InputError,
    QueryError,
    SettingError,
    SnapshotError,
    TidegateError,
)
from tidegate.ledger import CapExceeded, LedgerError

DONE = 0
USAGE = 2
REFUSED = 3  # for privacy: a cap, a state that must not be used, an input that changed
INPUT = 4  # what was read or written: not a number, unreadable, full disk, closed pipe

_CODES: tuple[tuple[type[Exception], int], ...] = (
    (CapExceeded, REFUSED),
    (LedgerError, REFUSED),
    (StateError, REFUSED),
    (SnapshotError, REFUSED),
    (SettingError, USAGE),
    (QueryError, USAGE),
    (InputError, INPUT),
    (TidegateError, INPUT),
)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn errors made for people into a message and an exit code."""
    try:
        yield
    except TidegateError as error:
        code = next(code for kind, code in _CODES if isinstance(error, kind))
        complain(str(error))
        raise typer.Exit(code) from None
    except KeyboardInterrupt:
        complain("interrupted; everything released so far is intact")
        raise typer.Exit(130) from None


def complain(message: str) -> None:
    """One line on stderr."""
    typer.echo(f"tidegate: {message}", err=True)
