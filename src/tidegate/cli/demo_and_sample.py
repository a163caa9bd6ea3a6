"""`tidegate demo` and `tidegate sample`: see it work, or try it, with made-up data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.exit_codes_and_signals import errors_as_exit_codes
from tidegate.cli.serve_token_backup import extra_to_serve
from tidegate.errors import SettingError


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
    """Release made-up data and show it; with --serve, on a live page.

    Examples:

    \b
      tidegate demo
      tidegate demo --serve
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes():
        if not serve:
            from tidegate.demo.table_and_picture import show

            show(picture)
            return
        with extra_to_serve():
            from tidegate.demo.serve import serve as serve_city
        serve_city(port, browser=browser)


_MOST_DAYS = 3_660


def sample(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV file to write.")],
    days: Annotated[int, typer.Option(metavar="N", help="How many days, of 1440 rows each.")] = 30,
    seed: Annotated[int, typer.Option(metavar="N", help="Another seed, another house.")] = 0,
) -> None:
    """Write a made-up electricity meter as a CSV file.

    One row a minute: time and watts, of a house with 20 flats. It is nobody's data, and nothing is
    downloaded.

    Examples:

    \b
      tidegate sample meters.csv
      tidegate sample year.csv --days 365 --seed 7
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes():
        if not 1 <= days <= _MOST_DAYS:
            raise SettingError("days", f"must lie between 1 and {_MOST_DAYS}, not {days}")
        if seed < 0:
            raise SettingError("seed", "must be 0 or more")
        if file.exists():
            raise SettingError("file", f"{file} exists: give another name")
        from tidegate.io.errors import sink_error
        from tidegate.synthetic import meter

        times, watts = meter(days, seed)
        readings = ("" if value != value else f"{value:.0f}" for value in watts.tolist())
        rows = zip(times.astype(str).tolist(), readings, strict=True)
        try:
            with file.open("x", encoding="utf-8", newline="") as out:
                out.write("time,watts\n")
                out.writelines(f"{time}Z,{value}\n" for time, value in rows)
        except OSError as error:
            raise sink_error(error, str(file)) from None
        typer.echo(f"{file}: {watts.size:,} made-up readings, one a minute")
