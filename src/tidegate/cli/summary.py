"""The summary of `tidegate release` on stderr: public facts only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.cli.exits import complain
from tidegate.cli.tables import percent, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.durable import DurableRelease, Transferred
    from tidegate.guarantee import Guarantee
    from tidegate.record.answer import Answer
    from tidegate.run.pipeline import Pipeline
    from tidegate.run.release import Release

# Beyond, the record of a durable run is read again for as long as the run itself took.
_LONGEST = 1 << 22


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    pipeline: Pipeline
    guarantee: Guarantee  # of everything that was released of this source
    seen: int  # rows that were read, by this run and those before
    released: int
    held: int  # values that the hold-out still needs
    threshold: float | None
    floor: float  # smaller values count as this
    total: Callable[[], Answer | None]  # of what was released, as far back as the record goes

    @classmethod
    def of(cls, run: DurableRelease | Release, result: Transferred) -> Outcome:
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
        )


def summarise(outcome: Outcome, named: str = "") -> None:
    """Rows in and out, the threshold, ε, the error of a total, and what is doubtful."""
    from tidegate.plan import setting_warnings  # on demand: `--help` needs none of it

    for line in _lines(outcome):
        complain(f"{named}{line}")
    for warning in setting_warnings(outcome.pipeline):
        complain(f"{named}warning: {warning}")


def nothing_released(outcome: Outcome, *, durable: bool) -> str:
    """Why there is no output, and what would do. Rows are counted, and their number is public."""
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


def unmeasured(result: Transferred, *, durable: bool) -> str:
    """What an input that ended inside its warm-up has left."""
    rows = f"the warm-up needs {result.unmeasured:,} more rows. The {result.released:,} rows are "
    if result.threshold is None:
        rows += "placeholders: nothing is measured yet."
    else:
        rows += "placeholders; their sum is in the file's record: ask `tidegate query`."
    more = "Continue with the same --state. " if durable else ""
    return f"{rows} {more}For a stream this short, give --horizon, the number of values to come."


def _lines(outcome: Outcome) -> list[str]:
    rows, released = outcome.seen, outcome.released
    first = f"released {released:,} of {rows:,} rows"
    if outcome.pipeline.ticks is not None:  # how many events there were is not said
        first = f"released {released:,} ticks of {outcome.pipeline.ticks.every}"
    elif released < rows:
        first += f" (the first {rows - released:,} chose the threshold and are not released)"
    lines = [
        f"{first}; {_counted(outcome)}",
        f"spent: {outcome.guarantee}",
    ]
    total = outcome.total() if released <= _LONGEST else None
    if total is not None:
        half, size = (total.high - total.low) / 2, total.end - total.start
        rows_known = f"{'all' if size == released else 'the last'} {size:,} released rows"
        lines.append(
            f"a sum over {rows_known} is known to ± {shown(half)} ({percent(total.confidence)})"
            f"{', apart from what the threshold cuts' if total.capped else ''}"
        )
        if total.warning:
            lines.append(f"warning: {total.warning}. Use more epsilon, or more values")
    return lines


def _counted(outcome: Outcome) -> str:
    """What values beyond the ends count as."""
    if outcome.pipeline.ticks is not None:
        largest = f"{outcome.threshold:g}" if outcome.threshold is not None else "?"
        return f"an event counts as {largest} at most"
    if outcome.floor:
        return f"values count from {outcome.floor:g} to {outcome.threshold:g}"
    return f"larger values count as {outcome.threshold:g}, values below 0 as 0 (see --lower)"
