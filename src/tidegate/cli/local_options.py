"""The settings of `topl` as options, declared once for all commands that take them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

_OPTIONS: dict[str, Any] = {
    "epsilon": Annotated[str | None, typer.Option(help="What a report costs, e.g. 1 or 1/2.")],
    "bound": Annotated[str | None, typer.Option(help="Public upper bound of a value.")],
    "resolution": Annotated[
        str | None,
        typer.Option(help="Values are rounded to multiples of this (default: by the bound)."),
    ],
    "holdout": Annotated[
        int | None, typer.Option(help="Devices asked for the threshold first (default 65536).")
    ],
    "horizon": Annotated[
        int | None, typer.Option(help="Longest range to answer well (default 1048576).")
    ],
    "threshold_epsilon": Annotated[
        str | None, typer.Option(help="What an answer for the threshold costs (default: epsilon).")
    ],
    "threshold": Annotated[
        str | None, typer.Option(help="Given instead of chosen: nobody is asked.")
    ],
    "scheme": Annotated[
        str | None,
        typer.Option(
            help="Of the threshold: adaptive (default), published, or published-authors (the "
            "paper's)."
        ),
    ],
    "smoothing": Annotated[
        bool | None, typer.Option("--smoothing", help="Of the published schemes' density.")
    ],
    "report": Annotated[
        str | None,
        typer.Option(
            help="Of the stream: optimal (default), hybrid, piecewise or stochastic-rounding."
        ),
    ],
    "keep_asking": Annotated[
        bool | None,
        typer.Option(
            "--keep-asking/--no-keep-asking",
            help="Ask for the threshold at the start of every horizon too (default: yes).",
        ),
    ],
}


def with_topl_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with all of these options in the place of its parameter `settings`.

    The command gets a dict of them; an option that was not given is None.
    """
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if parameter.name == "settings":
            parameters += [
                inspect.Parameter(name, parameter.kind, default=None, annotation=annotation)
                for name, annotation in _OPTIONS.items()
            ]
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def with_options(**arguments: Any) -> None:
        settings = {name: arguments.pop(name) for name in _OPTIONS}
        command(**arguments, settings=settings)

    # By these the command's options are found.
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_options
