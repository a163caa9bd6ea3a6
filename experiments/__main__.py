"""`python -m experiments list|run|report|data|compare`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from experiments.errors import ExperimentError, RefusedError

RESULTS = Path(__file__).parent / "results"
_FAILED, _REFUSED = 2, 3  # as `tidegate` itself: 2 usage, 3 refused for privacy


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        options.action(options, Console())
    except RefusedError as error:
        print(f"Refused: {error}", file=sys.stderr)
        return _REFUSED
    except ExperimentError as error:
        print(f"Error: {error}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        print("Stopped. What is finished is kept: run the same command to go on.", file=sys.stderr)
        return 130
    return 0


def _list(options: argparse.Namespace, console: Console) -> None:
    from experiments.listing import figure_table

    console.print(figure_table())


def _run(options: argparse.Namespace, console: Console) -> None:
    from experiments.figures import chosen
    from experiments.results import Store
    from experiments.run import cores, run
    from experiments.summary import summarise

    figures, wanted = chosen(options.figures), _wanted(options)
    store = Store(options.results)
    run(figures, wanted, store, workers=options.workers or cores(), console=console)
    summarise(figures, wanted, store, console)


def _report(options: argparse.Namespace, console: Console) -> None:
    from experiments.figures import chosen
    from experiments.report import write_report
    from experiments.results import Store

    path = write_report(
        chosen(options.figures), _wanted(options), Store(options.results), options.output
    )
    console.print(f"{path}: one page, nothing outside it is needed.")


def _wanted(options: argparse.Namespace):
    from experiments.cells import Wanted
    from experiments.registry import dataset

    return Wanted(
        quick=options.quick,
        runs=options.runs,
        seed=options.seed,
        datasets=tuple(dataset(name).name for name in options.datasets or ()),
    )


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description="Every figure of the paper, run, drawn and held against what the paper says.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="the figures, and what their streams are made of")
    listing.set_defaults(action=_list)
    run = commands.add_parser("run", help="run figures (all by default); finished cells are kept")
    run.set_defaults(action=_run)
    run.add_argument("--workers", type=_count, help="processes; default: all cores")
    report = commands.add_parser("report", help="one HTML page from what was run")
    report.set_defaults(action=_report)
    report.add_argument("--output", type=Path, help="default: report.html beside the results")
    for command in (run, report):
        command.add_argument("figures", nargs="*", metavar="FIGURE", help="names from `list`")
        command.add_argument("--quick", action="store_true", help="3 runs, 3 epsilons")
        command.add_argument("--runs", type=_count, help="runs of every cell")
        command.add_argument("--seed", type=int, help="base seed")
        command.add_argument("--datasets", nargs="+", metavar="NAME", help="these streams only")
        command.add_argument("--results", type=Path, default=RESULTS, help="folder of results")
    from experiments.data_commands import add_data_parser

    add_data_parser(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
