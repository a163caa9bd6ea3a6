"""Exit codes, and how errors become one line on stderr: never a traceback, never a value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from tidegate.errors import QueryError, RefusedError, SettingError, TidegateError

DONE = 0
USAGE = 2
REFUSED = 3  # for privacy: a cap, a state that must not be used, an input that changed
INPUT = 4  # what was read or written: not a number, unreadable, full disk, closed pipe
INTERRUPTED = 130  # Ctrl-C, as shells have it


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn errors made for people into a message and an exit code."""
    try:
        yield
    except TidegateError as error:
        complain(str(error))
        raise typer.Exit(_code(error)) from None
    except KeyboardInterrupt:
        complain("interrupted; everything released so far is intact")
        raise typer.Exit(INTERRUPTED) from None


def _code(error: TidegateError) -> int:
    if isinstance(error, RefusedError):
        return REFUSED
    return USAGE if isinstance(error, SettingError | QueryError) else INPUT


def complain(message: str) -> None:
    """One line on stderr."""
    typer.echo(f"tidegate: {message}", err=True)
