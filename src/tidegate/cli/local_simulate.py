"""`tidegate local simulate`: the local model rehearsed on a file."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from tidegate.cli.exits import complain, plain_errors
from tidegate.cli.local import (
    Bound,
    Epsilon,
    Holdout,
    Horizon,
    KeepAsking,
    Report,
    Resolution,
    Scheme,
    Smoothing,
    Threshold,
    ThresholdEpsilon,
    topl_of,
)

_NOTE = (
    "simulation: all devices were played by one process, which saw every value; for a rehearsal, "
    "not for a release"
)

_NO_SETTINGS = {"source", "output", "seed", "column", "format", "output_format"}


def simulate(
    source: Annotated[
        str, typer.Argument(metavar="INPUT", help="File to read; - or nothing: standard input.")
    ] = "-",
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="File to write; default: standard output.")
    ] = None,
    epsilon: Epsilon = None,
    bound: Bound = None,
    resolution: Resolution = None,
    holdout: Holdout = None,
    horizon: Horizon = None,
    threshold_epsilon: ThresholdEpsilon = None,
    threshold: Threshold = None,
    scheme: Scheme = None,
    smoothing: Smoothing = None,
    report: Report = None,
    keep_asking: KeepAsking = None,
    seed: Annotated[
        int | None, typer.Option(help="The same noise every time; default: fresh noise.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="Column or key that holds the values.")] = None,
    format: Annotated[  # noqa: A002  # the option's name
        str | None, typer.Option(help="Of the input: csv, jsonl or parquet; default: by extension.")
    ] = None,
    output_format: Annotated[
        str | None,
        typer.Option(help="Of the output: csv, jsonl or parquet; default: by extension."),
    ] = None,
) -> None:
    """Play all devices and their server on a file: what would the local model have published?

    Every value is taken for a device of its own, in the order of the file. The output is stamped as
    a simulation, whatever the noise came from: this process saw the raw values. It holds the whole
    file in memory.

    Examples:

    \b
      tidegate local simulate trips.csv --column fare --epsilon 1 --bound 500 -o rehearsal.csv
      tidegate local simulate trips.csv --epsilon 1 --bound 500 --seed 7 -o rehearsal.parquet
    """  # noqa: D301  # \b keeps the lines of the examples
    given = {name: value for name, value in locals().items() if name not in _NO_SETTINGS}
    with plain_errors():
        _run(given, source, output, seed, {"format": format, "column": column}, output_format)


def _run(
    given: dict[str, Any],
    source: str,
    output: str | None,
    seed: int | None,
    reading: dict[str, Any],
    output_format: str | None,
) -> None:
    from tidegate import __version__
    from tidegate.guarantee import simulated
    from tidegate.io import open_sink, open_source
    from tidegate.randomness import secure, seeded

    topl = topl_of(given)
    randomness = secure() if seed is None else seeded(seed)
    with open_source(source, **reading) as opened:
        values = np.concatenate([np.empty(0), *(batch.values for batch in opened.batches())])
    simulation = topl.simulate(values, randomness)
    promise = simulated(topl.guarantee)
    facts = {
        "tidegate": __version__,
        "guarantee": str(promise),
        "epsilon": str(promise.epsilon),
        "delta": str(promise.delta),
        "unit": promise.unit,
        "model": promise.model,
        "simulation": True,
        "note": _NOTE,
        "would_promise": str(topl.guarantee),
        "settings": topl.settings(),
        "threshold": simulation.threshold,
        "holdout": values.size - simulation.released.size,
        "released": simulation.released.size,
    }
    with open_sink(output, format=output_format, metadata=facts) as sink:
        sink.write(0, simulation.released)
    if simulation.threshold is None:
        complain(f"nothing was published: choosing a threshold takes {topl.holdout:,} values")
    elif simulation.advice:
        complain(simulation.advice)
    complain(_NOTE)
