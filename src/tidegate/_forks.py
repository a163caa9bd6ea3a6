"""Open databases and locked files, which a forked process inherits and must not touch."""

from __future__ import annotations

import ctypes
import os
from abc import ABC, abstractmethod
from typing import Any
from weakref import WeakSet


class Inherited(ABC):
    """An open resource of one process; a forked process disowns it at once."""

    def guard(self) -> None:
        """Have forked processes disown it from now on."""
        _open.add(self)

    @abstractmethod
    def disown(self) -> None:
        """Called in the forked process, before anything else runs there."""

    @staticmethod
    def keep_for_ever(thing: Any) -> None:
        """Never finalise it, not even at the end of the process: that would write to files."""
        if thing is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


_open: WeakSet[Inherited] = WeakSet()


def _disown() -> None:
    for thing in list(_open):
        thing.disown()


if hasattr(os, "register_at_fork"):  # where processes fork at all
    os.register_at_fork(after_in_child=_disown)
