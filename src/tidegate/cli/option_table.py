"""Options as a table: declared once, for all commands that take them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from tidegate.cli.choices import offering


def text(help: str, offers: Iterable[str] = (), **more: Any) -> Any:  # noqa: A002  # as in typer
    """An option with a text, or None if it is not given; `offers`: what a shell completes."""
    complete = offering(offers) if offers else None
    return Annotated[str | None, typer.Option(help=help, autocompletion=complete, **more)]


def texts(help: str, **more: Any) -> Any:  # noqa: A002
    """An option that may be given several times, or None if it is not given."""
    more.setdefault("metavar", "<str>")
    return Annotated[list[str] | None, typer.Option(help=help, **more)]


def whole(help: str) -> Any:  # noqa: A002
    """An option with an integer, or None."""
    return Annotated[int | None, typer.Option(help=help)]


def path(help: str) -> Any:  # noqa: A002
    """An option with the path of a file or folder, or None."""
    return Annotated[Path | None, typer.Option(help=help)]


def flag(*names: str, help: str) -> Any:  # noqa: A002
    """An option without a value: True, or None if it is not given."""
    return Annotated[bool | None, typer.Option(*names, help=help)]


def kinds(options: Mapping[str, Any]) -> dict[str, type]:
    """What each option takes: text, a whole number, a list of texts, or nothing (bool)."""
    found: dict[str, type] = {}
    for name, annotation in options.items():
        kind = get_args(get_args(annotation)[0])[0]  # Annotated[kind | None, …]
        plain = get_origin(kind) or kind
        found[name.replace("_", "-")] = plain if plain in (bool, int, list) else str
    return found


def with_options(options: Mapping[str, Any]) -> Callable[[Callable[..., None]], Any]:
    """A command with all of these options in the place of its parameter `settings`.

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
