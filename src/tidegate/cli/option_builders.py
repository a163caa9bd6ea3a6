"""Build typer options: text, numbers, flags, choices with shell completion, one value by column.

An option is declared once, for all commands that take it. Values by column are written
`--bound fare=100 --bound tip=30`.

One style of help: what a command does, arguments, options, examples; wide as the terminal.
"""

from __future__ import annotations

import functools
import inspect
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from tidegate.cli.pipeline_from_options import BY_COLUMN
from tidegate.errors import SettingError

FORMATS = ("csv", "jsonl", "parquet")
PIPES = ("resent", "continues")
EMITTED = ("all", "new")
LATE = ("refuse", "keep")
GAPS = ("refuse", "close")
PLANNED = ("adaptive", "tops")


def offering_options(choices: Iterable[str]) -> Callable[[str], list[str]]:
    """For `typer.Option(autocompletion=…)`: the choices that start with the typed text.

    >>> offering_options(FORMATS)("j")
    ['jsonl']
    """

    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return complete


def text_option(help: str, offers: Iterable[str] = (), **more: Any) -> Any:  # noqa: A002  # as in typer
    """An option with a text, None if not given; `offers` are the choices for shell completion."""
    complete = offering_options(offers) if offers else None
    return Annotated[str | None, typer.Option(help=help, autocompletion=complete, **more)]


def position_argument(name: str, help: str) -> Any:  # noqa: A002
    """For a position; where a newcomer types a time, it says which options take one."""

    def read(text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise typer.BadParameter(
                "must be a position, a whole number. To ask by time, use --from and --to"
            ) from None

    return typer.Argument(metavar=name, parser=read, help=help)


def texts_option(help: str, **more: Any) -> Any:  # noqa: A002
    """An option that may be repeated, None if not given."""
    more.setdefault("metavar", "<str>")
    return Annotated[list[str] | None, typer.Option(help=help, **more)]


def whole_option(help: str) -> Any:  # noqa: A002
    """An option with an integer, None if not given."""
    return Annotated[int | None, typer.Option(help=help)]


def path_option(help: str) -> Any:  # noqa: A002
    """An option with a path, None if not given."""
    return Annotated[Path | None, typer.Option(help=help)]


def flag_option(*names: str, help: str) -> Any:  # noqa: A002
    """An option without a value: True, or None if not given."""
    return Annotated[bool | None, typer.Option(*names, help=help)]


def option_kinds(options: Mapping[str, Any]) -> dict[str, type]:
    """The type of each option: text, whole number, list of texts, or flag (bool)."""
    found: dict[str, type] = {}
    for name, annotation in options.items():
        kind = get_args(get_args(annotation)[0])[0]  # Annotated[kind | None, …]
        plain = get_origin(kind) or kind
        found[name.replace("_", "-")] = plain if plain in (bool, int, list) else str
    return found


def with_options(options: Mapping[str, Any]) -> Callable[[Callable[..., None]], Any]:
    """Replace the parameter `settings` of a command by all of these options.

    The command gets a dict of them; an option that was not given is None.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            if parameter.name == "settings":
                parameters += [
                    inspect.Parameter(name, parameter.kind, default=None, annotation=annotation)
                    for name, annotation in options.items()
                ]
            else:
                parameters.append(parameter)

        @functools.wraps(command)
        def with_settings(**arguments: Any) -> None:
            settings = {name: arguments.pop(name, None) for name in options}
            command(**arguments, settings=settings)

        # By these the command's options are found.
        with_settings.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_settings.__annotations__ = {one.name: one.annotation for one in parameters}
        return with_settings

    return decorated


def build_options_of_one_column(options: dict[str, Any]) -> dict[str, Any]:
    """The options for a run over one column, or over the only one."""
    if "share" in options:
        raise SettingError("share", "needs several columns: give --column for each")
    found = dict(options)
    column = options.get("column", [None])[0]
    for name in BY_COLUMN:
        if name in found and name != "column":
            found[name] = _option_for_column(column, name, options[name])
    if column is not None:
        found["column"] = column
    return {name: value for name, value in found.items() if value is not None}


def _option_for_column(column: str | None, name: str, given: Sequence[str]) -> str:
    mine, sign, value = given[-1].rpartition("=")  # the last counts, as of any option
    if sign and mine != column:
        raise SettingError(name, f"is for {mine!r}, which is not the --column")
    return value


def build_option_by_column(
    name: str, columns: Sequence[str], given: Sequence[str] | None
) -> dict[str, Any]:
    """One value for each column: those named, and one for all others."""
    found: dict[str, Any] = {}
    for text in given or ():
        column, sign, value = text.rpartition("=")
        if sign and column not in columns:
            raise SettingError(name, f"{column!r} is not a --column of this run")
        wanted = [column] if sign else [one for one in columns if one not in found]
        for one in wanted:
            if sign and one in found:
                raise SettingError(name, f"is given twice for {one!r}")
            found[one] = value
    return found


_EXAMPLES = "Examples:"
_WIDEST = 160  # longer lines are hard to read


def option_context_settings() -> dict[str, Any]:
    """Settings of the whole program, which its commands inherit."""
    width = min(_WIDEST, shutil.get_terminal_size().columns)
    return {"help_option_names": ["-h", "--help"], "max_content_width": width}


def examples_after_options(app: typer.Typer) -> None:
    """Move the examples in every command's docstring below its options."""
    for info in app.registered_commands:
        text = inspect.cleandoc(info.help or (info.callback and info.callback.__doc__) or "")
        about, found, examples = text.partition(f"\n{_EXAMPLES}\n")
        if found:
            info.help = about.rstrip() + "\n"
            info.epilog = f"{_EXAMPLES}\n\n{examples.strip(chr(10))}"
    for group in app.registered_groups:
        if group.typer_instance is not None:
            examples_after_options(group.typer_instance)
