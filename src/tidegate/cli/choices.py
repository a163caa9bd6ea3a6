"""Options whose value is one of a few: what a shell offers when it completes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

FORMATS = ("csv", "jsonl", "parquet")
PIPES = ("resent", "continues")
EMITTED = ("all", "new")
LATE = ("refuse", "keep")
PLANNED = ("adaptive", "tops")


def offering(choices: Iterable[str]) -> Callable[[str], list[str]]:
    """For `typer.Option(autocompletion=…)`: the choices that begin as the word does.

    >>> offering(FORMATS)("j")
    ['jsonl']
    """

    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return complete
