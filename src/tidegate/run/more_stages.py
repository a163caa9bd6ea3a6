"""Where stored settings look for stages beyond `tidegate.run.stages_by_kind`: asked when needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `import tidegate` comes here, and must cost little
    from tidegate.settings import Spec

SOURCES: list[Callable[[], Iterable[type[Spec]]]] = []  # each is asked once


def more_stages(source: Callable[[], Iterable[type[Spec]]]) -> None:
    """Let stored settings also name the stages that `source` gives, when it is first needed."""
    SOURCES.append(source)
