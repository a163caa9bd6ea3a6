"""Who may change a state: one process, one thread at a time, nobody after an interrupted change.

Two processes that continue from the same state would share noise, and the difference of what they
publish is raw data. A change that was interrupted and tried again would count an event twice.
`Ownership` prevents both. A method that changes state has this shape:

    began = False
    try:
        with ownership.lock:        # refuses in a forked process, waits for other threads
            ...                     # check the input: may raise, nothing has changed yet
            ownership.begin()       # refuses after an interruption; sets the mark
            began = True
            ...                     # every change, and nothing that can refuse an input
            ownership.done()        # refuses in a forked process; clears the mark
            return result
    except BaseException:
        if began:                   # perhaps after `done`: the caller did not get the result
            ownership.refuse()
        raise

(`Release.push` has `lock`, `begin` and `done` written out: it is called for every value.)

An exception can arrive between any two instructions (a signal handler that raises, no memory). The
mark is set before the first change and cleared after the last; an exception that arrives later
still finds the `except`. So a change is made whole and its result returned, or the owner refuses
everything from then on. Only an exception that arrives in the *caller*, between the return and the
assignment, is out of reach.

Create the `Ownership` before the secret that it guards: a process that is forked in between must
not own a copy.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from tidegate.errors import TidegateError

Found = TypeVar("Found")
Arguments = ParamSpec("Arguments")

_REMEDY = "resume the last snapshot and push exactly the same values again, or start a new release"

_REOPEN = "open the state again; what was committed is there"

# Stands for this process. A fork replaces it in the child by one assignment: however many owners
# there are, and whatever they were doing, none is missed. (A process id could be used again. A fork
# by C code that does not tell Python is not noticed; Python itself does not survive one.)
_process = object()


def _renew() -> None:
    global _process  # noqa: PLW0603  # the one thing that a fork changes for all owners
    _process = object()


if hasattr(os, "register_at_fork"):  # where processes fork at all
    os.register_at_fork(after_in_child=_renew)


class Ownership:
    """The right to change the state of one owner.

    Args:
        owner: what is guarded, for messages.
        remedy: what to do after a change was interrupted, for messages.
    """

    __slots__ = ("__weakref__", "_cut_short", "_lock", "_owner", "_process", "_remedy", "changes")

    def __init__(self, owner: str = "release", remedy: str = _REMEDY) -> None:
        self._owner = owner
        self._remedy = remedy
        # Reentrant: a signal handler or a callback that enters the same owner again is refused by
        # `begin`; with a plain lock it would wait for itself.
        self._lock = threading.RLock()
        self._cut_short = False
        self.changes = 0  # how many are done
        self._process = _process

    @property
    def lock(self) -> threading.RLock:
        """The lock to hold during every change, for `with`.

        Refuses at once in a forked process, where the thread that holds the lock may not exist.
        """
        if self._process is not _process:
            self._refuse_copy()
        return self._lock

    @property
    def cut_short(self) -> bool:
        """Whether a change is under way, or was never completed."""
        return self._cut_short

    def check(self) -> None:
        """Refuse in a forked copy, and after a change that was interrupted."""
        if self._process is not _process:
            self._refuse_copy()
        if self._cut_short:
            raise TidegateError(
                f"an earlier change of this {self._owner} was cut short (or is still under way in "
                f"this thread), so it is not known which values were taken: {self._remedy}"
            )

    def begin(self) -> None:
        """Mark the beginning of a change. Refuses like `check`, and inside another change."""
        if self._cut_short or self._process is not _process:
            self.check()
        self._cut_short = True

    def check_not_held(self) -> None:
        """Refuse if another object commits this state; the base class never does."""

    def done(self) -> None:
        """Mark the end of a change. In a process that was forked meanwhile the mark stays."""
        if self._process is not _process:
            self._refuse_copy()
        self.changes += 1
        self._cut_short = False

    def unchanged(self) -> None:
        """Call instead of `done` if an input was refused and nothing changed."""
        if self._process is not _process:
            self._refuse_copy()
        self._cut_short = False

    def refuse(self) -> None:
        """Refuse from now on: a change was interrupted, or its result did not reach the caller."""
        self._cut_short = True

    def whole(self, change: Callable[[], Found]) -> Found:
        """Make a change as a whole; after an interruption, refuse to continue."""
        began = False
        try:
            with self.lock:
                self.begin()
                began = True
                found = change()
                self.done()
                return found
        except BaseException:
            if began:
                self.refuse()
            raise

    def _refuse_copy(self) -> None:
        raise TidegateError(
            f"this process was forked, and the {self._owner} with it. Only the parent may use it: "
            "two processes would share noise and files. Open or start one in this process"
        )


class HeldOwnership(Ownership):
    """Ownership of a release that another object holds, charges and commits.

    The release can be asked by everyone and changed by its holder only: what is changed behind the
    holder's back is neither charged nor committed, and its noise comes again after a restart.
    """

    __slots__ = ("_inside",)

    def __init__(self, owner: str = "release", remedy: str = _REOPEN) -> None:
        super().__init__(owner, remedy)
        self._inside = False

    @contextmanager
    def by_holder(self) -> Iterator[None]:
        """Allow changes inside this context, to this thread. Refuses after an interruption."""
        with self.lock:
            self.check()
            if self._inside:  # a signal handler, or a callback
                raise TidegateError(f"this {self._owner} is being changed: wait until that is over")
            try:
                self._inside = True  # inside: an interruption must not leave it behind
                yield
            finally:
                self._inside = False

    def begin(self) -> None:
        """Begin a change; only the holder may."""
        self.check_not_held()
        super().begin()

    def check_not_held(self) -> None:
        """Refuse callers other than the holder."""
        if not self._inside:
            raise TidegateError(
                f"this {self._owner} is kept in a store, which would not know of the change: push "
                "to what was opened there"
            )


@contextmanager
def refused_as(kind: type[TidegateError]) -> Iterator[None]:
    """Re-raise errors of the block as another class, with the same message."""
    try:
        yield
    except TidegateError as error:
        raise kind(str(error)) from None


def handing_over(
    method: Callable[Concatenate[Any, Arguments], Found],
) -> Callable[Concatenate[Any, Arguments], Found]:
    """Decorate a method that makes whole changes: return its result, or refuse later calls.

    An exception may arrive in between, when a change is done and its result is not handed over. A
    retry would count its events once more. So this is the outermost call.
    """

    @wraps(method)
    def handed_over(self: Any, /, *args: Arguments.args, **named: Arguments.kwargs) -> Found:
        ownership, changed = self._ownership, False
        try:
            with ownership.lock:
                before = ownership.changes
                try:
                    found = method(self, *args, **named)
                    changed = ownership.changes != before
                    return found
                except BaseException:
                    changed = ownership.changes != before
                    raise
        except BaseException:
            if changed:
                ownership.refuse()
            raise

    return handed_over


class NotCopied:
    """Owns files or part of a state, so it cannot be copied or pickled.

    A shallow copy would share the state, and count by itself what was taken and spent: a ledger
    charged by such a count, or a device's lifetime, would be overdrawn.
    """

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TidegateError(
            f"a {type(self).__name__} cannot be copied or pickled: both copies would continue one "
            "state, and count apart what was spent. Open it once, and let threads share it"
        )
