"""Who may go on with a release: one process, one thread at a time, and nobody after an accident.

Two that went on from the same state would share noise, and their difference is raw data.
"""

from __future__ import annotations

import os
import threading
from weakref import WeakSet

from tidegate.errors import TidegateError

CUT_SHORT = (
    "an earlier push was cut short, so what it published is not known: resume the last snapshot "
    "and push exactly the same values again, or start a new release"
)
_COPIED = (
    "this process was forked, and the release with it: only the parent may go on, or two streams "
    "would share noise"
)


class Custody:
    """The right to go on.

    Attributes:
        lock: two threads in one push would share noise.
        refusal: why nothing more can be released; None: it can.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.refusal: str | None = None
        _all.add(self)

    def check(self) -> None:
        """Refuse, if there is a reason."""
        if self.refusal is not None:
            raise TidegateError(self.refusal)


# A forked process inherits the noise of every release; it must not use it a second time.
_all: WeakSet[Custody] = WeakSet()


def _disown() -> None:
    for custody in _all:
        custody.refusal = _COPIED


if hasattr(os, "register_at_fork"):  # where processes fork at all
    os.register_at_fork(after_in_child=_disown)
