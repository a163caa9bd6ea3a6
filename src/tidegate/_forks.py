"""What a forked process inherits and must not touch: open databases, locked files."""

from __future__ import annotations

import ctypes
import os
from abc import ABC, abstractmethod
from typing import Any
from weakref import WeakSet


class Inherited(ABC):
    """Something open that belongs to one process; a forked one lets go of it at once."""

    def guard(self) -> None:
        """From now on, a forked process disowns it."""
        _open.add(self)

    @abstractmethod
    def disown(self) -> None:
        """Called in the forked process, before anything else runs there."""

    @staticmethod
    def keep_for_ever(thing: Any) -> None:
        """Never collect it, not even when the process ends: its end would be an act."""
        if thing is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


_open: WeakSet[Inherited] = WeakSet()


def _disown() -> None:
    for thing in list(_open):
        thing.disown()


if hasattr(os, "register_at_fork"):  # where processes fork at all
    os.register_at_fork(after_in_child=_disown)
