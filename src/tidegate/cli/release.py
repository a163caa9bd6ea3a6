"""`tidegate release`: a stream in, a private stream out."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.choices import EMITTED, PIPES, offering
from tidegate.cli.exits import UNMEASURED, complain, plain_errors
from tidegate.cli.keys import READABLE, read_key
from tidegate.cli.pipelines import PRESETS, SMOOTHERS, build, with_config
from tidegate.cli.signals import stopping
from tidegate.cli.streams import (
    Column,
    Header,
    InputFormat,
    OutputFile,
    OutputFormat,
    Source,
    check_output,
)
from tidegate.errors import SettingError
from tidegate.run.pipeline import Pipeline

if TYPE_CHECKING:  # files and durable state are imported when they are needed: start-up counts
    from tidegate.cli.progress import Progress
    from tidegate.cli.running import Outcome
    from tidegate.cli.writer import Output

EXAMPLES = """
Examples:

\b
  tidegate release meters.csv --column watts -o private.csv --epsilon 0.1 --bound 10000
  tidegate release trips.parquet -o private.parquet --config release.toml --state state/
  sensor | tidegate release --epsilon 0.1 --bound 50 --resolution 0.1 --state state/ | dashboard
"""


def release(
    source: Source = "-",
    output: OutputFile = None,
    epsilon: Annotated[str | None, typer.Option(help="Privacy budget, e.g. 0.1 or 1/10.")] = None,
    bound: Annotated[str | None, typer.Option(help="Public upper bound of a value.")] = None,
    resolution: Annotated[
        str | None, typer.Option(help="Values are rounded to multiples of this (default 1).")
    ] = None,
    holdout: Annotated[
        int | None,
        typer.Option(
            help="Values that choose the threshold and are not released (default 65536; with "
            "--preset adaptive none)."
        ),
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(help="Longest range to answer well (default 1048576).")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help=f"Method: {', '.join(PRESETS)} (default tops, the paper's; adaptive is more "
            "accurate on most streams).",
            autocompletion=offering(PRESETS),
        ),
    ] = None,
    estimator: Annotated[
        str | None,
        typer.Option(
            help=f"In blocks: {', '.join(SMOOTHERS)} (default recent).",
            autocompletion=offering(SMOOTHERS),
        ),
    ] = None,
    fanout: Annotated[int | None, typer.Option(help="Children per tree node (default 16).")] = None,
    skipped: Annotated[
        int | None, typer.Option(help="Tree levels left to the smoother (default: by epsilon).")
    ] = None,
    delta: Annotated[str | None, typer.Option(help="For the pak presets.")] = None,
    non_negative: Annotated[
        bool | None, typer.Option("--non-negative", help="Publish no negative values.")
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(help="What epsilon protects: event, window:W or user-horizon:K."),
    ] = None,
    rethreshold: Annotated[
        str | None,
        typer.Option(help="Choose the threshold again: every=N or every=N,share=F."),
    ] = None,
    start_early: Annotated[
        int | None, typer.Option(help="Begin after this many values, refine the threshold later.")
    ] = None,
    column: Column = None,
    user_column: Annotated[
        str | None, typer.Option(help="Column or key that names the user (user-horizon).")
    ] = None,
    header: Header = None,
    format: InputFormat = None,  # noqa: A002  # the option's name
    output_format: OutputFormat = None,
    follow: Annotated[
        bool | None, typer.Option("--follow", help="Wait for more at the end of a growing file.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with any of these options, by their names.")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            help="Folder for durable state, which survives kills and restarts. Without it, every "
            "run spends epsilon again."
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(help="Key that seals the state (or TIDEGATE_KEY); none: unsealed."),
    ] = None,
    ledger_source: Annotated[
        str | None, typer.Option(help="Whose values these are, for the ledger (default: folder).")
    ] = None,
    cap: Annotated[
        str | None, typer.Option(help="The most epsilon this source may ever spend.")
    ] = None,
    new_epoch: Annotated[
        bool | None,
        typer.Option("--new-epoch", help="Give up lost state: release anew, charged again."),
    ] = None,
    stdin: Annotated[
        str | None,
        typer.Option(
            help="After a restart, a pipe is resent from its start (default) or continues.",
            autocompletion=offering(PIPES),
        ),
    ] = None,
    emit: Annotated[
        str | None,
        typer.Option(
            help="On standard output after a restart: all (default) or new.",
            autocompletion=offering(EMITTED),
        ),
    ] = None,
    quiet: Annotated[
        bool | None, typer.Option("--quiet", "-q", help="No progress bar, no closing line.")
    ] = None,
) -> None:
    """Release a stream of numbers under differential privacy, value by value."""
    given = {
        name.replace("_", "-"): value
        for name, value in locals().items()
        if name not in ("source", "config")
    }
    with plain_errors():
        options = with_config(given, config)
        _run(source, options)


def _run(source: str, options: dict[str, Any]) -> None:
    from tidegate.cli.progress import Progress
    from tidegate.cli.running import release_once
    from tidegate.cli.writer import Output
    from tidegate.io import open_source

    pipeline = build(options)
    output = Output(options.get("output"), options.get("output-format"))
    _check(source, options)
    with open_source(
        source,
        format=options.get("format"),
        column=options.get("column"),
        user_column=options.get("user-column"),
        header=options.get("header"),
        follow=bool(options.get("follow")),
    ) as opened:
        quiet = bool(options.get("quiet"))
        follow = bool(options.get("follow"))
        with Progress(opened, quiet=quiet) as progress, stopping(opened if follow else None):
            if "state" in options:
                result = _durable(pipeline, opened, output, options, progress, source)
            else:
                result = release_once(pipeline, opened, output, progress.advance)
    if not quiet or result.unmeasured:
        _close(result, goes_on="state" in options)


def _durable(
    pipeline: Pipeline,
    opened: Any,
    output: Output,
    options: dict[str, Any],
    progress: Progress,
    source: str,
) -> Outcome:
    from tidegate.cli.running import release_durably
    from tidegate.durable import DurableRelease

    with DurableRelease.open(
        options["state"],
        pipeline,
        key=read_key(options.get("key-file")),
        source=options.get("ledger-source"),
        cap=options.get("cap"),
        new_epoch=bool(options.get("new-epoch")),
    ) as run:
        if not run.sealed and not run.seen and not options.get("quiet"):
            complain(
                f"the state in {options['state']} is not sealed (no --key-file, no TIDEGATE_KEY): "
                f"{READABLE}"
            )
        return release_durably(
            run,
            opened,
            output,
            progress.advance,
            resent=source != "-" or options.get("stdin", "resent") == "resent",
            emit_all=options.get("emit", "all") == "all",
        )


def _check(source: str, options: dict[str, Any]) -> None:
    for name, choices in (("stdin", PIPES), ("emit", EMITTED)):
        if options.get(name, choices[-1]) not in choices:
            raise SettingError(name, f"must be one of {', '.join(choices)}, not {options[name]!r}")
    if "state" not in options:
        for name in ("key-file", "ledger-source", "cap", "new-epoch", "stdin", "emit"):
            if name in options:
                raise SettingError(name, "needs --state")
    output = str(options.get("output") or "")
    check_output(source, options.get("output"), options.get("output-format"))
    if options.get("new-epoch") and output and output != "-" and Path(output).exists():
        raise SettingError(
            "output", "exists: a new epoch needs another output (or remove this one)"
        )
    if options.get("new-epoch") and output and not Path(output).parent.is_dir():
        raise SettingError("output", "there is no such folder: nothing was charged or given up")
    protects_users = str(options.get("unit", "")).startswith("user-horizon")
    if protects_users != ("user-column" in options):
        raise SettingError("user-column", "goes with --unit user-horizon:K, and only with it")


def _close(result: Outcome, *, goes_on: bool) -> None:
    if result.unmeasured:
        complain(_unmeasured(result, goes_on=goes_on))
        raise typer.Exit(UNMEASURED)
    if result.held:
        complain(
            f"nothing was released: the hold-out needs {result.held} more values "
            f"(--holdout {result.pipeline.holdout})"
        )
    elif sys.stderr.isatty() or os.environ.get("TIDEGATE_SUMMARY"):
        complain(
            f"released {result.released:,} values, truncated at {result.threshold:g}; "
            f"{result.pipeline.guarantee}"
        )


def _unmeasured(result: Outcome, *, goes_on: bool) -> str:
    """What the input that ended inside its warm-up has left."""
    rows = f"the warm-up needs {result.unmeasured:,} more values. The {result.released:,} rows are "
    if result.threshold is None:
        rows += "placeholders: nothing is measured yet."
    else:
        rows += "placeholders; their sum is in the file's record: ask `tidegate query`."
    more = "Continue with the same --state. " if goes_on else ""
    return f"{rows} {more}For a stream this short, give --horizon, the number of values to come."
