"""Who may go on: one process, one thread at a time, and nobody after a change that was cut short.

Two that went on from the same state would share noise, and their difference is raw data. A change
that was cut short and tried again would count an event twice. `Custody` is the one place for both.
An entry that changes state has this shape:

    began = False
    try:
        with custody.lock:          # refuses in a forked process, waits for other threads
            ...                     # check the input: may raise, nothing has changed yet
            custody.begin()         # refuses after an accident; sets the mark
            began = True
            ...                     # every change, and nothing that can refuse an input
            custody.done()          # refuses in a forked process; clears the mark
            return result
    except BaseException:
        if began:                   # perhaps after `done`: the caller did not get the result
            custody.refuse()
        raise

Exceptions can arrive between any two instructions (a signal handler that raises, no memory). The
mark is set before the first change and cleared after the last; one that arrives later still finds
the `except`. So an entry is taken whole and its result handed over, or the owner refuses. Only an
exception that arrives in the *caller*, between the return and the assignment, is out of reach.

Make the custody before the secret that it guards: a process that is forked in between must not
own a copy.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.errors import TidegateError

_REMEDY = "resume the last snapshot and push exactly the same values again, or start a new release"

# Stands for this process. A fork replaces it in the child by one assignment: however many owners
# there are, and whatever they were doing, none is missed. (A process id could be used again. A fork
# by C code that does not tell Python is not noticed; Python itself does not survive one.)
_process = object()


def _renew() -> None:
    global _process  # noqa: PLW0603  # the one thing that a fork changes for all owners
    _process = object()


if hasattr(os, "register_at_fork"):  # where processes fork at all
    os.register_at_fork(after_in_child=_renew)


class Custody:
    """The right to change the state of one owner.

    Args:
        owner: what is guarded, as messages call it.
        remedy: what to do after a change was cut short.
    """

    __slots__ = ("__weakref__", "_cut_short", "_lock", "_owner", "_process", "_remedy")

    def __init__(self, owner: str = "release", remedy: str = _REMEDY) -> None:
        self._owner = owner
        self._remedy = remedy
        # Reentrant: a signal handler or a callback that comes back into the same owner is refused
        # by `begin`; with a plain lock it would wait for itself.
        self._lock = threading.RLock()
        self._cut_short = False
        self._process = _process

    @property
    def lock(self) -> threading.RLock:
        """For `with`. A forked process is refused at once: the thread that would release may be
        missing there."""
        if self._process is not _process:
            self._refuse_copy()
        return self._lock

    @property
    def cut_short(self) -> bool:
        """Whether a change is under way, or was never completed."""
        return self._cut_short

    def check(self) -> None:
        """Refuse, if there is a reason: this process is a copy, or a change was cut short."""
        if self._process is not _process:
            self._refuse_copy()
        if self._cut_short:
            raise TidegateError(
                f"an earlier change of this {self._owner} was cut short (or is still under way in "
                f"this thread), so it is not known what was taken: {self._remedy}"
            )

    def begin(self) -> None:
        """Before the first change. Refuses like `check`; a second one within the first, too."""
        if self._cut_short or self._process is not _process:
            self.check()
        self._cut_short = True

    def done(self) -> None:
        """After the last change. In a process that was forked meanwhile the mark stays."""
        if self._process is not _process:
            self._refuse_copy()
        self._cut_short = False

    def refuse(self) -> None:
        """Never go on: a change was cut short, or its result did not reach the caller."""
        self._cut_short = True

    def _refuse_copy(self) -> None:
        raise TidegateError(
            f"this process was forked, and the {self._owner} with it: only the parent may go on, "
            "or two processes would share noise and files. Open or start one in this process"
        )


@contextmanager
def refused_as(kind: type[TidegateError]) -> Iterator[None]:
    """Raise what the block refuses as another kind of error, with the same words."""
    try:
        yield
    except TidegateError as error:
        raise kind(str(error)) from None
