"""Register stages for stored settings beyond those of `tidegate.run.stages_by_kind`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `import tidegate` comes here, and must cost little
    from tidegate.settings import Spec

SOURCES: list[Callable[[], Iterable[type[Spec]]]] = []  # each is asked once


def more_stages(source: Callable[[], Iterable[type[Spec]]]) -> None:
    """Register a function that returns more stages; it is called when stored settings need them."""
    SOURCES.append(source)
