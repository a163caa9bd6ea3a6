"""Exit codes; errors as one line on stderr, never a traceback or a value; stop on a signal."""

from __future__ import annotations

import errno
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import typer

from tidegate.errors import QueryError, RefusedError, SettingError, TidegateError

USAGE = 2
REFUSED = 3  # for privacy: a cap, a state that must not be used, an input that changed
INPUT = 4  # what was read or written: not there, not a number, unreadable, full disk, closed pipe
NOTHING = 5  # the input ended before anything was measured: no rows, or placeholders
INTERNAL = 70  # a fault of Tidegate, as sysexits.h has it
INTERRUPTED = 130  # Ctrl-C, as shells have it
# Errors about options, which typer prints by itself. Newer versions carry their own copy of
# click, so the class is reached through one of its children.
_OPTION_ERRORS: type[BaseException] = typer.BadParameter.__mro__[2]
_CLICK = typer.Context.__mro__[1].__module__.rpartition(".")[0]
_GO_ON = frozenset({"is", "must", "needs", "need", "has", "cannot", "counts", "and", "or"})


@contextmanager
def errors_as_exit_codes() -> Iterator[None]:
    """Turn errors made for people into a message and an exit code."""
    try:
        yield
    except SettingError as error:
        complain(_setting_as_typed(error.setting.replace("_", "-"), error.problem))
        _explain_exit(error)
        raise typer.Exit(_exit_code(error)) from None
    except TidegateError as error:
        complain(str(error))
        _explain_exit(error)
        raise typer.Exit(_exit_code(error)) from None
    except (typer.Exit, typer.Abort, _OPTION_ERRORS):
        raise
    except MemoryError:
        complain("there is not enough memory; what was released so far is intact")
        raise typer.Exit(INPUT) from None
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            raise  # the reader of our output closed it, which typer handles
        complain(_exit_fault(error))
        raise typer.Exit(INTERNAL) from None
    except KeyboardInterrupt as interrupt:
        complain("interrupted; everything released so far is intact")
        _explain_exit(interrupt)
        raise typer.Exit(INTERRUPTED) from None


def _setting_as_typed(setting: str, problem: str) -> str:
    """`--bound must be …` where the command has this option, else `bound: must be …`."""
    context = import_module(f"{_CLICK}.globals").get_current_context(silent=True)
    if context is None or not any(f"--{setting}" in one.opts for one in context.command.params):
        return f"{setting}: {problem}"
    return f"--{setting}{'' if problem.split()[0] in _GO_ON else ':'} {problem}"


def _explain_exit(error: BaseException) -> None:
    """What the error leaves behind, as noted by the code that knows (`Exception.add_note`)."""
    for note in getattr(error, "__notes__", ()):
        complain(note)


def _exit_fault(error: Exception) -> str:
    """Where an unexpected error happened; no message, no traceback: both may quote the data."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"this should not happen: {type(error).__name__} in {Path(frame.filename).name}, line "
        f"{frame.lineno}. What was released so far is intact. Please report it (SECURITY.md); what "
        "else is known of it could hold values and is not shown"
    )


def _exit_code(error: TidegateError) -> int:
    if isinstance(error, RefusedError):
        return REFUSED
    return USAGE if isinstance(error, SettingError | QueryError) else INPUT


def complain(message: str) -> None:
    """Print one line on stderr."""
    typer.echo(f"tidegate: {message}", err=True)


class Closable(Protocol):
    """Anything with a `close` method."""

    def close(self) -> None:
        """Close it."""


class stopping_on_signal:  # noqa: N801  # reads as a verb in `with`
    """Stop a run cleanly on SIGTERM, as on Ctrl-C; a source that is being followed just ends.

    An exception that a signal raises can get lost: Python drops those of finalizers, and libraries
    those of their callbacks. So it is raised again, by `check`, as soon as a block is done.
    """

    def __init__(self, followed: Closable | None) -> None:
        self._followed = followed
        self._before: dict[int, Any] = {}
        self._asked = False

    def __enter__(self) -> stopping_on_signal:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._stop)
        return self

    def check(self) -> None:
        """Stop here if a signal asked for it and the run has not stopped yet."""
        if self._asked and self._followed is None:
            raise KeyboardInterrupt

    def then(self, progress: Callable[[int], None]) -> Callable[[int], None]:
        """Report the progress of a run and check for a signal, block by block."""

        def advance(count: int) -> None:
            self.check()
            progress(count)

        return advance

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
        if self._followed is None:
            signal.default_int_handler(number, frame)
        else:
            self._followed.close()

    def __exit__(self, *reason: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
