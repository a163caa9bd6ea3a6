"""One style of help: what a command does, arguments, options, examples; wide as the terminal."""

from __future__ import annotations

import inspect
import shutil
from typing import Any

import typer

_EXAMPLES = "Examples:"
_WIDEST = 160  # longer lines are hard to read


def context_settings() -> dict[str, Any]:
    """For the whole program: commands inherit it."""
    width = min(_WIDEST, shutil.get_terminal_size().columns)
    return {"help_option_names": ["-h", "--help"], "max_content_width": width}


def examples_last(app: typer.Typer) -> None:
    """Move the examples of every command's docstring behind its options."""
    for info in app.registered_commands:
        text = inspect.cleandoc(info.help or (info.callback and info.callback.__doc__) or "")
        about, found, examples = text.partition(f"\n{_EXAMPLES}\n")
        if found:
            info.help = about.rstrip() + "\n"
            info.epilog = f"{_EXAMPLES}\n\n{examples.strip(chr(10))}"
    for group in app.registered_groups:
        if group.typer_instance is not None:
            examples_last(group.typer_instance)
