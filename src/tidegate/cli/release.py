"""`tidegate release`: a stream in, a private stream out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.choices import EMITTED, PIPES, offering
from tidegate.cli.exits import NOTHING, complain, plain_errors
from tidegate.cli.keys import READABLE, read_key
from tidegate.cli.pipelines import (
    DEFAULT_PRESET,
    PRESETS,
    SMOOTHERS,
    build,
    with_config,
    with_length,
)
from tidegate.cli.signals import stopping
from tidegate.cli.streams import (
    Column,
    DecimalSign,
    Delimiter,
    Header,
    InputFormat,
    OutputFile,
    OutputFormat,
    Source,
    check_output,
    holds_something,
)
from tidegate.errors import SettingError
from tidegate.run.pipeline import Pipeline

if TYPE_CHECKING:  # files and durable state are imported when they are needed: start-up counts
    from tidegate.durable import DurableRelease, Transferred
    from tidegate.run.release import Release

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
        str | None,
        typer.Option(help="Values are rounded to multiples of this (default: by the bound)."),
    ] = None,
    holdout: Annotated[
        int | None,
        typer.Option(
            help="Values that choose the threshold and are not released (default 65536; with "
            "--preset adaptive none)."
        ),
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(help="Longest range to answer well (default 1048576, or the input's rows)."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help=f"Method: {', '.join(PRESETS)} (default {DEFAULT_PRESET}; tops is the paper's). "
            "See `tidegate methods`.",
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
    delta: Annotated[
        str | None, typer.Option(help="For presets with an (epsilon, delta) guarantee.")
    ] = None,
    set_: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE,…",
            help="Arguments that only this method has (`tidegate methods NAME`).",
        ),
    ] = None,
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
    delimiter: Delimiter = None,
    decimal: DecimalSign = None,
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
    overwrite: Annotated[
        bool | None,
        typer.Option(
            "--overwrite", help="Replace an existing output. The new release spends epsilon again."
        ),
    ] = None,
    quiet: Annotated[
        bool | None,
        typer.Option(
            "--quiet", "-q", help="No progress bar, no summary; errors are still printed."
        ),
    ] = None,
) -> None:
    """Release a stream of numbers under differential privacy, value by value."""
    given = {
        name.rstrip("_").replace("_", "-"): value
        for name, value in locals().items()
        if name not in ("source", "config")
    }
    with plain_errors():
        options = with_config(given, config)
        _run(source, options)


def _run(source: str, options: dict[str, Any]) -> None:
    from tidegate.cli.progress import Progress
    from tidegate.durable import transfer
    from tidegate.io import open_source

    _check(source, options)
    pipeline = build(with_length(options, source))
    quiet, follow = bool(options.get("quiet")), bool(options.get("follow"))
    with (
        open_source(
            source,
            format=options.get("format"),
            column=options.get("column"),
            user_column=options.get("user-column"),
            header=options.get("header"),
            delimiter=options.get("delimiter"),
            decimal=options.get("decimal"),
            follow=follow,
        ) as opened,
        Progress(opened, quiet=quiet) as progress,
        stopping(opened if follow else None),
    ):
        into: dict[str, Any] = {
            "sink": options.get("output"),
            "format": options.get("output-format"),
            "progress": progress.advance,
            "warn": complain,
        }
        if "state" not in options:
            once = pipeline.start()
            result = transfer(opened, once, **into)
            progress.close()
            _close(once, result, quiet=quiet)
        else:
            with _opened(pipeline, options) as run:
                into.update(_after_a_restart(run, source, options))
                result = transfer(opened, run, **into)
                progress.close()
                _close(run, result, quiet=quiet)
    if options.get("overwrite") and not quiet:
        complain("--overwrite: epsilon was spent anew; it adds up with what the old output spent")


def _opened(pipeline: Pipeline, options: dict[str, Any]) -> DurableRelease:
    from tidegate.durable import DurableRelease

    run = DurableRelease.open(
        options["state"],
        pipeline,
        key=read_key(options.get("key-file")),
        source=options.get("ledger-source"),
        cap=options.get("cap"),
        new_epoch=bool(options.get("new-epoch")),
    )
    if not run.sealed and not run.seen and not options.get("quiet"):
        complain(
            f"the state in {options['state']} is not sealed (no --key-file, no TIDEGATE_KEY): "
            f"{READABLE}"
        )
    return run


def _after_a_restart(run: DurableRelease, source: str, options: dict[str, Any]) -> dict[str, Any]:
    """Where the input and the output go on: a pipe and standard output cannot be looked at."""
    continues = source == "-" and options.get("stdin", "resent") == "continues"
    new = options.get("output") in (None, "-") and options.get("emit", "all") == "new"
    return {"start": run.seen if continues else None, "written": run.position if new else None}


def _check(source: str, options: dict[str, Any]) -> None:
    for name, choices in (("stdin", PIPES), ("emit", EMITTED)):
        if options.get(name, choices[-1]) not in choices:
            raise SettingError(name, f"must be one of {', '.join(choices)}, not {options[name]!r}")
    if "state" not in options:
        for name in ("key-file", "ledger-source", "cap", "new-epoch", "stdin", "emit"):
            if name in options:
                raise SettingError(name, "needs --state")
    elif "overwrite" in options:
        raise SettingError("overwrite", "goes without --state: with it, the output is continued")
    output = str(options.get("output") or "")
    check_output(source, options.get("output"), options.get("output-format"))
    if "state" not in options and not options.get("overwrite") and holds_something(output):
        raise SettingError(
            "output",
            f"{output} exists, and this run would spend epsilon on the same values once more. Use "
            "--overwrite to replace it all the same, --state to continue a release, or another "
            "output",
        )
    if options.get("new-epoch") and output and output != "-" and Path(output).exists():
        raise SettingError(
            "output", "exists: a new epoch needs another output (or remove this one)"
        )
    if options.get("new-epoch") and output and not Path(output).parent.is_dir():
        raise SettingError("output", "there is no such folder: nothing was charged or given up")
    protects_users = str(options.get("unit", "")).startswith("user-horizon")
    if protects_users != ("user-column" in options):
        raise SettingError("user-column", "goes with --unit user-horizon:K, and only with it")


def _close(run: DurableRelease | Release, result: Transferred, *, quiet: bool) -> None:
    from tidegate.cli.summary import Outcome, nothing_released, summarise, unmeasured
    from tidegate.durable import DurableRelease

    outcome = Outcome.of(run, result)
    if result.unmeasured:
        complain(unmeasured(result, durable=isinstance(run, DurableRelease)))
        raise typer.Exit(NOTHING)
    if not result.released:  # never hidden: a script would take a missing output for a good one
        complain(nothing_released(outcome, durable=isinstance(run, DurableRelease)))
        raise typer.Exit(NOTHING)
    if not quiet:
        summarise(outcome)
