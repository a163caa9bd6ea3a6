"""Options of commands that read a stream and write one."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli.choices import FORMATS, offering

Source = Annotated[
    str, typer.Argument(metavar="INPUT", help="File to read; - or nothing: standard input.")
]
OutputFile = Annotated[
    str | None, typer.Option("--output", "-o", help="File to write; default: standard output.")
]
Column = Annotated[str | None, typer.Option(help="Column or key that holds the values.")]
InputFormat = Annotated[
    str | None,
    typer.Option(
        help="Of the input: csv, jsonl or parquet; default: by extension.",
        autocompletion=offering(FORMATS),
    ),
]
OutputFormat = Annotated[
    str | None,
    typer.Option(
        help="Of the output: csv, jsonl or parquet; default: by extension.",
        autocompletion=offering(FORMATS),
    ),
]
