"""`tidegate demo`: see it work, with made-up data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.exits import plain_errors
from tidegate.cli.serve import service_extra


def demo(
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Start a service, feed it a made-up city, open its page."),
    ] = False,
    port: Annotated[int, typer.Option(help="With --serve: port to listen on.")] = 8000,
    browser: Annotated[bool, typer.Option(help="With --serve: open the page in a browser.")] = True,
    picture: Annotated[
        Path, typer.Option(help="Where the picture of the stream is written.")
    ] = Path("tidegate-demo.png"),
) -> None:
    """Release made-up data: one stream as a table and a picture, or a city behind a live page.

    Examples:

    \b
      tidegate demo
      tidegate demo --serve
    """  # noqa: D301  # \b keeps the lines of the examples
    with plain_errors():
        if not serve:
            from tidegate.demo.table_and_picture import show

            show(picture)
            return
        with service_extra():
            from tidegate.demo.serve import serve as serve_city
        serve_city(port, browser=browser)
