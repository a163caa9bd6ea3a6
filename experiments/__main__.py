"""`python -m experiments list|run|report|page|data|compare|rivals`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from experiments.data_commands import add_data_parser
from experiments.errors import ExperimentError, RefusedError

if TYPE_CHECKING:
    from experiments.cells import Wanted

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


def _list(_options: argparse.Namespace, console: Console) -> None:
    from experiments.listing import figure_table

    console.print(figure_table())


def _run(options: argparse.Namespace, console: Console) -> None:
    from experiments.figures import chosen
    from experiments.results import Store
    from experiments.run import cores, run
    from experiments.summary import summarise

    figures, wanted = chosen(options.figures), _wanted(options)
    store = Store(options.results)
    failures = run(figures, wanted, store, workers=options.workers or cores(), console=console)
    summarise(figures, wanted, store, console)
    if failures:
        raise ExperimentError(f"{len(failures)} cells could not be run; the first: {failures[0]}")


def _report(options: argparse.Namespace, console: Console) -> None:
    from experiments.figures import chosen
    from experiments.report import write_report
    from experiments.results import Store

    store = Store(options.results, stale=options.stale)
    path = write_report(chosen(options.figures), _wanted(options), store, options.output)
    console.print(f"{path}: one page, nothing outside it is needed.")


def _page(options: argparse.Namespace, console: Console) -> None:
    from experiments.cells import Wanted
    from experiments.page import PAGE, check, page
    from experiments.results import Store

    if options.check:
        faults = check(PAGE.read_text(encoding="utf-8") if PAGE.is_file() else "")
        if faults:
            raise ExperimentError(f"{PAGE.name}: {'; '.join(faults)}. Run `make experiments`")
        console.print(f"{PAGE.name} has a section for every figure and a verdict on every claim.")
        return
    PAGE.write_text(page(Wanted(), Store(options.results, stale=options.stale)), encoding="utf-8")
    console.print(str(PAGE))


def _compare(options: argparse.Namespace, console: Console) -> None:
    from experiments.candidates import Question
    from experiments.compare import compare
    from experiments.sample import load

    question = Question(**{one.name: getattr(options, one.name) for one in fields(Question)})
    if not options.public_data:
        raise RefusedError(
            "comparing methods looks at the true values, and its results are not private. If this "
            "sample is public or made up, say so with --public-data"
        )
    compare(load(options.file, options.column), question, options.output, console)


def _rivals(options: argparse.Namespace, console: Console) -> None:
    from experiments.confirmation import confirmed, verdicts
    from experiments.rivals import PROMISES, courses, lost, run, table, write

    for promise in options.promises or PROMISES:
        if promise not in PROMISES:
            raise ExperimentError(f"there is no promise {promise!r}: choose from {PROMISES}")
    streams = courses(options.values, options.part, options.streams or ())
    for promise in options.promises or PROMISES:
        cells = run(
            *(promise, streams, options.epsilons, console),
            runs=options.runs, ranges=options.ranges, everything=options.all, seed=options.seed,
        )  # fmt: skip
        console.print(table(promise, cells), markup=False, soft_wrap=True)
        console.print(f"\n{lost(promise, cells)}", markup=False, soft_wrap=True)
        for path in write(promise, cells, options.output):
            console.print(str(path))
        if options.confirm:
            judged = confirmed(
                *(promise, cells, console),
                runs=options.confirm, ranges=options.ranges, seed=options.seed,
            )  # fmt: skip
            console.print(f"\n{verdicts(judged)}", markup=False, soft_wrap=True)


def _wanted(options: argparse.Namespace) -> Wanted:
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


def _whole(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("must be a whole number, 0 or more")
    return number


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("must be a number above 0")
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
        command.add_argument("--quick", action="store_true", help="2 runs, 3 epsilons")
        command.add_argument("--runs", type=_count, help="runs of every cell")
        command.add_argument("--seed", type=_whole, help="base seed")
        command.add_argument("--datasets", nargs="+", metavar="NAME", help="these streams only")
        command.add_argument("--results", type=Path, default=RESULTS, help="folder of results")
    page = commands.add_parser("page", help="docs/reproduction.md from the results of a full run")
    page.set_defaults(action=_page)
    page.add_argument(
        "--check", action="store_true", help="only hold its structure against figures"
    )
    page.add_argument("--results", type=Path, default=RESULTS, help="folder of results")
    for command in (report, page):
        command.add_argument(
            "--stale",
            action="store_true",
            help="take results of another version if need be",
        )
    add_data_parser(commands)
    _add_compare_parser(commands)
    _add_rivals_parser(commands)
    return parser


def _add_rivals_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    rivals = commands.add_parser(
        "rivals", help="the best rival against adaptive on every stream: tables and pictures"
    )
    rivals.set_defaults(action=_rivals)
    rivals.add_argument(
        "promises", nargs="*", metavar="PROMISE", help="event, window, concentrated; default: all"
    )
    rivals.add_argument("--streams", nargs="+", metavar="NAME", help="these streams only")
    rivals.add_argument(
        "--part", choices=("last", "first"), default="last", help="of a stream (last: unseen)"
    )
    rivals.add_argument("--values", type=_count, default=20_000, help="of every stream")
    rivals.add_argument("--epsilons", type=_positive, nargs="+", default=[0.1, 1.0])
    rivals.add_argument("--runs", type=_count, default=1, help="runs of every method")
    rivals.add_argument("--ranges", type=_count, default=600, help="ranges of every run")
    rivals.add_argument("--seed", type=_whole, default=1, help="base seed")
    rivals.add_argument("--all", action="store_true", help="every method that compare knows")
    rivals.add_argument(
        "--confirm", type=_count, metavar="RUNS", help="judge close cells by this many new runs"
    )
    rivals.add_argument("--output", type=Path, default=Path("rivals-output"), help="folder")


def _add_compare_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    compare = commands.add_parser(
        "compare", help="rank all central methods on a sample that is not sensitive"
    )
    compare.set_defaults(action=_compare)
    compare.add_argument(
        "file", metavar="FILE", help="Parquet, CSV, one number a line; or twin:pos"
    )
    compare.add_argument(
        "--public-data",
        action="store_true",
        help="the sample is public or made up: nothing is private",
    )
    compare.add_argument(
        "--epsilon", type=_positive, required=True, help="the budget to compare at"
    )
    compare.add_argument(
        "--bound", type=_positive, required=True, help="public upper bound of a value"
    )
    compare.add_argument(
        "--window", type=_count, help="also compare with ε for any as many consecutive values"
    )
    compare.add_argument("--column", help="of the file; default: value, or the only one")
    compare.add_argument(
        "--resolution", type=_positive, default=1.0, help="values are rounded to it"
    )
    compare.add_argument(
        "--holdout", type=_count, help="default: 65,536, or an eighth of the sample"
    )
    compare.add_argument("--runs", type=_count, default=12, help="runs of every method")
    compare.add_argument("--ranges", type=_count, default=200, help="ranges of every run")
    compare.add_argument("--seed", type=_whole, default=1, help="base seed")
    compare.add_argument(
        "--output", type=Path, default=Path("compare-output"), help="folder for table and picture"
    )


if __name__ == "__main__":
    sys.exit(main())
