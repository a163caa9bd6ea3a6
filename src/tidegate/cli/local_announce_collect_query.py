"""`tidegate local`: announce, collect and query reports of devices that perturb their values."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.exit_codes_and_signals import complain, errors_as_exit_codes
from tidegate.cli.local_options import with_topl_options
from tidegate.cli.query import AsJson, Confidence, End, Ranges, Start, query_ranges
from tidegate.errors import MissingError, SettingError
from tidegate.tables.plain_text import plain_number, plain_percent, table

if TYPE_CHECKING:  # imported when it is needed: start-up counts
    from tidegate.local.poisoning import PoisoningBound
    from tidegate.local.server import Server
    from tidegate.record.range_queries_and_answers import Answers

app = typer.Typer(
    help="Collect from devices that perturb their own values.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

_MOST_PLACES = 10_000  # rejected reports of which --json says which they were
State = Annotated[Path, typer.Argument(metavar="STATE", help="File of the collection's state.")]


@app.command()
@with_topl_options
def announce(
    state: State,
    settings: dict[str, Any],
    by_name: Annotated[
        bool | None,
        typer.Option("--by-name", help="Choose each client's question by its name."),
    ] = None,
    next_round: Annotated[
        bool,
        typer.Option("--next-round", help="Close the round: every device may report once more."),
    ] = False,
) -> None:
    """Begin a collection; print its open questions as JSON lines.

    Settings begin a collection, and are kept with it; later on none are needed. Hand the lines to
    devices in rotation; with --by-name give all of them, and each device picks its own, which is
    checked. When enough have answered, other questions open: announce
    again after every `collect`.

    Examples:

    \b
      tidegate local announce state.db --epsilon 1 --bound 1657
      tidegate local announce state.db > announcements.jsonl
      tidegate local announce state.db --next-round > announcements.jsonl
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes(), _opened_local_collection(state, settings, by_name) as server:
        if next_round:
            server.next_round()
        for announcement in server.announcements:
            typer.echo(announcement.json())
        left = server.collection.left
        takes = "any number of reports" if left is None else f"{left:,} more reports"
        complain(f"round {server.round} takes {takes}; a device spends ε even if it is too late")


@app.command()
def collect(
    state: State,
    reports: Annotated[
        str, typer.Argument(metavar="REPORTS", help="JSON lines; - or nothing: standard input.")
    ] = "-",
    as_json: AsJson = False,
) -> None:
    """Take reports, one per client and round; count rejected ones.

    A duplicate was taken before; a late one came when its round had closed. With --json,
    `rejected_at` says which reports were rejected, counted from 0, and why.

    Every batch is on the disk when the next one is read. If it is killed, run the same command
    again: what was taken before is rejected as a duplicate, or because its round has closed.

    Examples:

    \b
      tidegate local collect state.db reports.jsonl
      receiver | tidegate local collect state.db --json
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes(), _opened_local_collection(state) as server:
        from tidegate.cli.report_lines import report_lines

        accepted, rejected, given = 0, Counter[str](), 0
        places: dict[int, str] = {}
        for lines in report_lines(reports):
            received = server.collect_many(lines)
            accepted += received.accepted
            rejected.update(received.rejected)
            for place, why in received.rejected_at.items():
                if len(places) < _MOST_PLACES:
                    places[given + place] = why
            given += len(lines)
        if as_json:
            typer.echo(_collected_json(server, accepted, rejected, places))
        else:
            typer.echo(_collected_lines(server, accepted, rejected))


@app.command()
def query(
    state: State,
    start: Start = None,
    end: End = None,
    ranges: Ranges = None,
    confidence: Confidence = 0.95,
    malicious: Annotated[
        float | None,
        typer.Option(
            metavar="FRACTION",
            help="Also show how far this share of malicious clients can move a sum.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sum collected reports, with an interval.

    The range is from START up to END; without them, all reports.

    Positions count the reports of the stream from 0, in the order of arrival; END is not part of
    the range. No privacy is spent, however many ranges are asked.

    Examples:

    \b
      tidegate local query state.db 0 86400
      tidegate local query state.db 0 86400 --malicious 0.01 --json
      tidegate local query state.db --ranges days.csv
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes(), _opened_local_collection(state) as server:
        positions = query_ranges(start, end, ranges)
        answers = server.queries(*positions(server.collection.collected.count), confidence)
        if malicious is not None and not 0 <= malicious <= 1:
            raise SettingError("malicious", f"must lie between 0 and 1, not {malicious}")
        bound = None if malicious is None else server.poisoning_bound(malicious)
        said = _query_json if as_json else _query_text
        typer.echo(said(server, answers, bound))


def topl_of(given: dict[str, Any]) -> Any:
    """The `topl` specification from the options."""
    from tidegate.methods.topl import topl

    for required in ("epsilon", "bound"):
        if given.get(required) is None:
            raise SettingError(required, "is required")
    return topl(**{name: value for name, value in given.items() if value is not None})


def _opened_local_collection(
    state: Path, given: dict[str, Any] | None = None, by_name: bool | None = None
) -> Server:
    """The server of a state file; given settings must equal those of the file."""
    from tidegate.local.topl import Topl

    settings = {name: value for name, value in (given or {}).items() if value is not None}
    if not state.exists():
        if given is None:
            raise MissingError(
                f"there is no collection in {state}: begin one with tidegate local announce"
            )
        server: Server = topl_of(settings).server(state, by_name=by_name)
        return server
    known = Topl.from_settings(_settings_of_collection(state))
    for name, value in settings.items():
        if getattr(Topl.from_settings({**known.settings(), name: value}), name) != getattr(
            known, name
        ):
            begun = getattr(known, name)
            raise SettingError(
                name,
                f"the collection in {state} was begun with {'none' if begun is None else begun}: "
                "leave it out, or begin another one in a new file",
            )
    return known.server(state, by_name=by_name)


def _settings_of_collection(path: Path) -> dict[str, Any]:
    """The settings with which the collection in this file began."""
    from tidegate.local.server_store import ServerStateError, ServerStore

    store = ServerStore(path, create=False)
    try:
        settings = store.plain("settings")
    finally:
        store.close()
    if not isinstance(settings, dict):
        raise ServerStateError(f"{path} was created, but no collection was begun in it: remove it")
    return settings


def _collected_lines(server: Server, accepted: int, rejected: Counter[str]) -> str:
    lines = [f"accepted   {accepted:,} reports, {server.accepted:,} in all"]
    lines += [f"rejected   {count:,} {why}" for why, count in sorted(rejected.items())]
    lines.append(f"published  {server.collection.collected.count:,} values")
    if server.threshold is not None:
        lines.append(f"threshold  {server.threshold:g}")
    left = server.collection.left
    lines.append(f"open       round {server.round}" + ("" if left is None else f", {left:,} to go"))
    if server.collection.advice:
        complain(server.collection.advice)
    return "\n".join(lines)


def _collected_json(
    server: Server, accepted: int, rejected: Counter[str], places: dict[int, str]
) -> str:
    plain = {
        "accepted": accepted,
        "rejected": dict(rejected),
        "rejected_at": places,
        "accepted_in_all": server.accepted,
        "rejected_in_all": dict(server.rejected),
        "published": server.collection.collected.count,
        "threshold": server.threshold,
        "advice": server.collection.advice,
        "round": server.round,
        "left": server.collection.left,
    }
    return json.dumps(plain, indent=1, ensure_ascii=False)


def _query_json(server: Server, answers: Answers, bound: PoisoningBound | None) -> str:
    from tidegate.record.answer_text import text_of_cautions

    names = ("start", "end", "estimate", "low", "high", "standard_error")
    columns = {name: getattr(answers, name).tolist() for name in names}
    if bound is not None:
        lengths = (answers.end - answers.start).tolist()
        columns["malicious_expected"] = [bound.expected(length) for length in lengths]
        columns["malicious_sure"] = [bound.sure(length) for length in lengths]
    plain = {
        "state": str(server.path),
        "guarantee": str(server.guarantee),
        "confidence": answers.confidence,
        "threshold": answers.threshold,
        "highest": answers.highest,
        "floor": answers.floor,
        "warnings": text_of_cautions(answers),
        "answers": [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ],
    }
    return json.dumps(plain, indent=1, ensure_ascii=False)


def _query_text(server: Server, answers: Answers, bound: PoisoningBound | None) -> str:
    interval = f"{plain_percent(answers.confidence)} interval"
    head = ["range", "sum", interval, "std. error"]
    if bound is not None:
        head.append(f"± ({plain_percent(bound.fraction)} malicious)")
    rows = []
    for answer in map(answers.__getitem__, range(len(answers))):
        row = [f"[{answer.start}, {answer.end})", plain_number(answer.estimate)]
        row.append(f"{plain_number(answer.low)} to {plain_number(answer.high)}")
        row.append(plain_number(answer.standard_error))
        if bound is not None:
            row.append(plain_number(bound.expected(answer.end - answer.start)))
        rows.append(row)
    from tidegate.record.answer_text import text_of_cautions

    notes = [f"{_query_capped(answers)} {server.guarantee}.", *text_of_cautions(answers)]
    return "\n".join([table(head, rows), "", *notes])


def _query_capped(answers: Answers) -> str:
    """The caps of values, as a sentence."""
    from tidegate.record.answer_text import text_of_moved_level

    upper = text_of_moved_level(answers.threshold, answers.highest)
    if answers.floor:
        ends = f"capped to [{text_of_moved_level(answers.floor, answers.lowest_floor)}, {upper}]"
    else:
        ends = f"capped at {upper}"
    return (
        f"Sums of values {ends}, plus what capping is expected to take; the interval holds the "
        "capped sum and the estimate."
    )
