"""What `tidegate release` prints on stderr: a summary, or what a failed run leaves behind.

Public facts only, but for lines that say that they are for the operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.cli.exit_codes_and_signals import complain
from tidegate.cli.printed_answers import USELESS, printed_advice, printed_spread
from tidegate.durable import DurableRelease
from tidegate.durable.durable_columns import DurableColumns
from tidegate.errors import RefusedError, TidegateError
from tidegate.guarantee import sequential
from tidegate.io import SinkError
from tidegate.run.release import Release
from tidegate.tables.plain_text import plain_percent

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.durable import DurableRelease, Transferred
    from tidegate.guarantee import Guarantee
    from tidegate.keyed import KeyedRelease
    from tidegate.record.answer import Answer
    from tidegate.run.pipeline import Pipeline
    from tidegate.run.release import Release

Durable = DurableRelease | DurableColumns


@contextmanager
def summary_of_what_is_left(
    run: Durable | Sequence[Release | KeyedRelease], output: str | None
) -> Iterator[None]:
    """Add what is left to an error. Refusals for privacy explain themselves."""
    try:
        yield
    except (TidegateError, KeyboardInterrupt) as error:
        if not isinstance(error, RefusedError):
            with suppress(TidegateError):  # a release that was interrupted may say nothing
                if isinstance(run, Durable):
                    error.add_note(_summary_of_continuing(run))
                else:
                    torn = isinstance(error, SinkError)
                    error.add_note(_summary_of_spent(run, output, torn=torn))
        raise


def _summary_of_continuing(run: Durable) -> str:
    rows, seen = f"{run.position:,} rows are released", f"the first {run.seen:,} rows"
    if isinstance(run, DurableRelease) and run.pipeline.ticks is not None:
        seen = "what was read before"  # the number of events is secret
    again = "run the same command again: it continues from there, and nothing is spent twice"
    if not run.seen:
        return f"no rows are released. When that is mended, {again}"
    return f"{rows} and stay valid. When that is mended ({seen} must stay as they are), {again}"


def _summary_of_spent(
    runs: Sequence[Release | KeyedRelease], output: str | None, *, torn: bool
) -> str:
    position, seen = (min(getattr(run, name) for run in runs) for name in ("position", "seen"))
    promise = sequential(*(run.guarantee for run in runs))
    if not position:
        return "no rows were released, so no epsilon was spent"
    rest = f"the rows from {seen:,} on (counted from 0)"
    if runs[0].pipeline.ticks is not None:  # the number of events is secret
        rest = "later ticks"
    cost = (
        f"They have spent {promise}, and a new run spends that again on the same rows: "
        f"release only {rest}, or accept that costs add up. "
        "With --state, the same command would continue where it stopped"
    )
    # With several columns, each has a file whose name is derived from this one.
    written = output not in (None, "-") and (len(runs) > 1 or Path(str(output)).exists())
    if not written:
        return f"{position:,} rows were released before that. {cost}"
    if torn:
        return f"{position:,} rows were released; {output} may lack the last of them. {cost}"
    marked = "and its metadata says that it is not complete"
    return f"{output} holds the first {position:,} rows, {marked}. {cost}"


# Beyond, the record of a durable run is read again for as long as the run itself took.
_LONGEST = 1 << 22
_MOST_KEYS = 1000  # beyond, their total takes too long
_LONG = 16  # times the rows: a horizon that is much too long for what has come
_WIDE = 0.25  # of a sum: an interval that could be shorter


@dataclass(frozen=True)
class ReleaseOutcome:
    """The results of a run, for its summary."""

    pipeline: Pipeline
    guarantee: Guarantee  # of everything that was released of this source
    seen: int  # rows that were read, by this run and those before
    released: int
    held: int  # values that the hold-out still needs
    threshold: float | None
    floor: float  # smaller values count as this
    total: Callable[[], Answer | None]  # of what was released, as far back as the record goes
    durable: bool = False  # runs before this one count, and runs after it may

    @classmethod
    def of(cls, run: DurableRelease | Release, result: Transferred) -> ReleaseOutcome:
        """The outcome of a transfer, while the release is still open."""

        def total() -> Answer | None:
            record = run.record
            return None if record is None else record.query(record.start, record.end)

        return cls(
            run.pipeline,
            run.guarantee,
            result.read,
            result.released,
            result.held,
            result.threshold,
            run.phases[-1].floor if run.phases else 0.0,
            total,
            isinstance(run, DurableRelease),
        )


def summarise_release(outcome: ReleaseOutcome, named: str = "") -> None:
    """Print rows in and out, the threshold, ε, the error of a total, and warnings."""
    from tidegate.plan import setting_warnings  # on demand: `--help` needs none of it

    for line in _summary_lines(outcome):
        complain(f"{named}{line}")
    for warning in setting_warnings(outcome.pipeline):
        complain(f"{named}warning: {warning}")


def summarise_release_of_keys(release: Any, result: Any, named: str = "") -> None:
    """Print the summary of a release with keys; `named` names the column."""
    from tidegate.plan import setting_warnings  # on demand: `--help` needs none of it

    if release.specification.pipeline.ticks is None:
        read = result.read - result.dropped  # dropped rows have their own line, for the operator
        complain(f"{named}released {result.released:,} of {read:,} rows, of {result.keys:,} keys")
    else:
        ticks = result.released // max(1, result.keys)  # the number of events is secret
        complain(f"{named}released {ticks:,} ticks of {result.keys:,} keys")
    if release.threshold is not None:
        complain(f"{named}larger values count as {release.threshold:g}, for all keys")
    complain(f"{named}spent: {release.guarantee}")
    for line in _summary_of_crowded_keys(release) if result.keys <= _MOST_KEYS else []:
        complain(f"{named}{line}")
    if result.unmeasured:
        advice = "--shared-threshold chooses one for all"
        if release.specification.pipeline.ticks is not None:
            advice = "Longer ticks (--every), or fewer keys, would help"
        complain(
            f"{named}warning: {_keys_have(result.unmeasured)} too few rows for a threshold of "
            f"their own: little is known about them. {advice}"
        )
    for warning in setting_warnings(release.specification.pipeline):
        complain(f"{named}warning: {warning}")


def _keys_have(count: int) -> str:
    return "1 key has" if count == 1 else f"{count:,} keys have"


def _summary_of_crowded_keys(release: Any) -> list[str]:
    """Warn if most values lie at the cap, over all keys; say what the bound cuts."""
    with suppress(TidegateError):  # a range that not all keys know: print nothing
        total = release.query()
        advice = f"warning: {total.warning}. Use {printed_advice(total)}"
        return [*([advice] if total.warning else []), *filter(None, [total.beyond_bound[:-1]])]
    return []


def summary_of_left_out(run: DurableRelease | Release) -> list[str]:
    """Tell the operator about events outside all ticks: often a wrong year or zone."""
    found = []
    dropped: int = getattr(run, "dropped", 0)
    if dropped:
        found.append(
            f"dropped {dropped:,} events: before --start, or after their tick was released. "
            "This number is for you: it is not private, and is not in the output"
        )
    if getattr(run, "waiting", False):
        found.append(
            "there are events after the last tick that is over at --until: they were not released. "
            "This is for you: it is not private, and is not in the output"
        )
    return found


def nothing_released(outcome: ReleaseOutcome, *, durable: bool) -> str:
    """Why there is no output, and what to do. The number of rows is public."""
    pipeline, rows = outcome.pipeline, outcome.seen
    if pipeline.ticks is not None:
        return "nothing was released: no tick is over. Give a later --until, or an earlier --start"
    if not rows:
        return "nothing was released: the input has no rows. No output was written"
    held = pipeline.holdout
    if not outcome.held:
        return (
            f"nothing was released: all {rows:,} rows chose the threshold, and the next row is the "
            "first to be released"
        )
    return (
        f"nothing was released: the threshold takes {held:,} rows (--holdout), and the input has "
        f"{rows:,}. No output was written. "
        + (
            f"Run the same command again when there are {outcome.held:,} more rows"
            if durable
            else f"Use {outcome.held:,} more rows, or --holdout {max(1, rows // 16):,}"
        )
    )


def summary_of_unmeasured(result: Transferred, *, durable: bool) -> str:
    """What is left of an input that ended inside its warm-up."""
    rows = f"the warm-up needs {result.unmeasured:,} more rows. Those released are placeholders"
    if result.threshold is None:
        rows += ": nothing is measured yet."
    else:
        rows += "; their sum is in the file's record: ask `tidegate query`."
    more = "Continue with the same --state. " if durable else ""
    return f"{rows} {more}For a stream this short, give --horizon, the number of values to come."


def _summary_lines(outcome: ReleaseOutcome) -> list[str]:
    rows, released = outcome.seen, outcome.released
    total = outcome.total() if released <= _LONGEST else None
    first = f"released {released:,} of {rows:,} rows"
    if outcome.pipeline.ticks is not None:  # the number of events is secret
        first = f"released {released:,} ticks of {outcome.pipeline.ticks.every}"
    elif released < rows:
        first += f" (the first {rows - released:,} chose the threshold and are not released)"
    together = ", by all runs with this state together" if outcome.durable else ""
    lines = [
        f"{first}; {_summary_of_counted(outcome, total)}",
        f"spent: {outcome.guarantee}{together}",
    ]
    if total is not None:
        half, size = (total.high - total.low) / 2, total.end - total.start
        reach = printed_spread(total.estimate - total.low, total.high - total.estimate)
        rows_known = f"{'all' if size == released else 'the last'} {size:,} released rows"
        lines.append(
            f"a sum over {rows_known} is known to {reach} ({plain_percent(total.confidence)})"
            f"{', apart from what the threshold cuts' if total.capped else ''}"
        )
        if total.warning:
            lines.append(f"warning: {total.warning}. Use {printed_advice(total)}")
        elif half >= abs(total.estimate):
            lines.append(f"warning: {USELESS}")
        if total.beyond_bound:
            lines.append(total.beyond_bound.rstrip("."))
        lines += _summary_why_wide(outcome, total)
    return lines


def _summary_why_wide(outcome: ReleaseOutcome, total: Answer) -> list[str]:
    """What an interval assumes, and what would make it narrower."""
    from tidegate.record.answer_text import FAR, OPEN, text_of_open_end  # on demand, as above

    words = {
        FAR: "the upper end assumes an ordinary tail above the cap, which lies far below the "
        "bound: a few huge values would not show",
        OPEN: "too few values chose the cap to see larger ones, so the upper end is far",
        "": "",
    }
    found = [words[text_of_open_end(total)], total.note.rstrip(".")]
    horizon, wide = outcome.pipeline.perturber.horizon, total.high - total.low
    long = outcome.pipeline.ticks is None and horizon >= _LONG * outcome.released
    if long and wide > _WIDE * abs(total.estimate):
        found.append(
            f"the horizon of {horizon:,} rows costs accuracy in the first rows: give a shorter "
            "--horizon if you know that fewer will come"
        )
    return [line for line in found if line]


def _summary_of_counted(outcome: ReleaseOutcome, total: Answer | None) -> str:
    """The caps of values; where they moved, in the words of `tidegate query`."""
    from tidegate.record.answer_text import text_of_moved_level  # on demand, as above

    if outcome.pipeline.ticks is not None:
        largest = f"{outcome.threshold:g}" if outcome.threshold is not None else "?"
        return f"an event counts as {largest} at most"
    if outcome.floor:
        return f"values count from {outcome.floor:g} to {outcome.threshold:g}"
    cap = (
        f"{outcome.threshold:g}"
        if total is None
        else text_of_moved_level(total.threshold, total.highest)
    )
    return f"larger values count as {cap}, values below 0 as 0 (see --lower)"
