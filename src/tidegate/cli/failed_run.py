"""Describe a run that failed in the middle: released rows, their cost, and how to continue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from tidegate.durable import DurableRelease
from tidegate.durable.durable_columns import DurableColumns
from tidegate.errors import RefusedError, TidegateError
from tidegate.guarantee import sequential
from tidegate.run.release import Release

Durable = DurableRelease | DurableColumns


@contextmanager
def told_what_is_left(run: Durable | Sequence[Release], output: str | None) -> Iterator[None]:
    """Add it to an error on its way to the user. What was refused for privacy explains itself."""
    try:
        yield
    except (TidegateError, KeyboardInterrupt) as error:
        if not isinstance(error, RefusedError):
            with suppress(TidegateError):  # a release that was interrupted may say nothing
                if isinstance(run, Durable):
                    error.add_note(_continued(run))
                else:
                    error.add_note(_spent(run, output))
        raise


def _continued(run: Durable) -> str:
    rows, seen = f"{run.position:,} rows are released", f"the first {run.seen:,} rows"
    if isinstance(run, DurableRelease) and run.pipeline.ticks is not None:
        seen = "what was read before"  # how many events there are is nobody's business
    again = "run the same command again: it continues from there, and nothing is spent twice"
    if not run.seen:
        return f"no rows are released. When that is mended, {again}"
    return f"{rows} and stay valid. When that is mended ({seen} must stay as they are), {again}"


def _spent(runs: Sequence[Release], output: str | None) -> str:
    position, seen = (min(getattr(run, name) for run in runs) for name in ("position", "seen"))
    promise = sequential(*(run.guarantee for run in runs))
    if not position:
        return "no rows were released, so no epsilon was spent"
    rest = f"the rows from {seen:,} on (counted from 0)"
    if runs[0].pipeline.ticks is not None:  # how many events there are is nobody's business
        rest = "later ticks"
    cost = (
        f"They have spent {promise}, and a new run spends that again on the same rows: "
        f"release only {rest}, or accept that costs add up. "
        "With --state, the same command would continue where it stopped"
    )
    if output in (None, "-"):
        return f"{position:,} rows were released before that. {cost}"
    marked = "and its metadata says that it is not complete"
    return f"{output} holds the first {position:,} rows, {marked}. {cost}"
