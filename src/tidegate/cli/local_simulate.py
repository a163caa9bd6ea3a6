"""`tidegate local simulate`: rehearse the local model on a file."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from tidegate.cli import file_options as streams
from tidegate.cli.exit_codes_and_signals import complain, errors_as_exit_codes
from tidegate.cli.local_announce_collect_query import topl_of
from tidegate.cli.local_options import with_topl_options
from tidegate.errors import SettingError, TidegateError

_NOTE = (
    "simulation: all devices were played by one process, which saw every value; for a rehearsal, "
    "not for a release"
)


@with_topl_options
def simulate(
    settings: dict[str, Any],
    source: streams.Source = "-",
    output: streams.OutputFile = None,
    seed: Annotated[
        int | None, typer.Option(help="The same noise every time; default: fresh noise.")
    ] = None,
    clamp: Annotated[
        bool,
        typer.Option("--clamp", help="Count lower values as --lower; do not refuse them."),
    ] = False,
    column: streams.Column = None,
    header: streams.Header = None,
    format: streams.InputFormat = None,  # noqa: A002  # the option's name
    output_format: streams.OutputFormat = None,
) -> None:
    """Rehearse the local model on a file: devices and their server.

    Every value is taken for a device of its own, in the order of the file. The output is stamped as
    a simulation, whatever the noise came from: this process saw the raw values. It holds the whole
    file in memory.

    Examples:

    \b
      tidegate local simulate trips.csv --column fare --epsilon 1 --bound 500 -o rehearsal.csv
      tidegate local simulate trips.csv --epsilon 1 --bound 500 --seed 7 -o rehearsal.parquet
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes():
        reading = {"format": format, "column": column, "header": header}
        _run_local_simulation(settings, source, output, seed, reading, output_format, clamp)


def _refuse_to_replace_simulation(output: str | None, output_format: str | None) -> None:
    """Refuse to overwrite a release: it cost ε. A rehearsal may replace a rehearsal."""
    from tidegate.io.metadata_files import read_metadata

    if output is None or not streams.file_holds_something(output):
        return
    try:
        facts = read_metadata(output, output_format)
    except TidegateError:  # whatever it is, it is no rehearsal
        facts = None
    if not facts or not facts.get("simulation"):
        raise SettingError(
            "output", f"{output} exists, and is no rehearsal: name another output, or remove it"
        )


def _run_local_simulation(
    settings: dict[str, Any],
    source: str,
    output: str | None,
    seed: int | None,
    reading: dict[str, Any],
    output_format: str | None,
    clamp: bool,
) -> None:
    from tidegate.guarantee import simulated
    from tidegate.io import open_sink, open_source
    from tidegate.randomness import secure, seeded
    from tidegate.run.public_facts import promised_facts

    topl = topl_of(settings)
    streams.check_output(source, output, output_format)
    _refuse_to_replace_simulation(output, output_format)
    randomness = secure() if seed is None else seeded(seed)
    with open_source(source, **reading) as opened:
        values = np.concatenate([np.empty(0), *(batch.values for batch in opened.batches())])
    simulation = topl.simulate(values, randomness, clamp=clamp)
    promise = simulated(topl.guarantee)
    facts = {
        **promised_facts(promise),
        "model": promise.model,
        "simulation": True,
        "note": _NOTE,
        "would_promise": str(topl.guarantee),
        "settings": topl.settings(),
        "threshold": simulation.threshold,
        "holdout": values.size - simulation.released.size,
        "released": simulation.released.size,
        "collected": simulation.collection.collected.plain(),  # for `tidegate query`
    }
    with open_sink(output, format=output_format, metadata=facts) as sink:
        sink.write(0, simulation.released)
    if simulation.threshold is None:
        complain(f"nothing was published: choosing a threshold takes {topl.asked_first:,} values")
    elif simulation.advice:
        complain(simulation.advice)
    complain(_NOTE)
