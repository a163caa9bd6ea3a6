"""What a run leaves behind that fails in the middle: rows, what they cost, and how to go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tidegate.durable import DurableRelease
from tidegate.errors import RefusedError, TidegateError
from tidegate.run.release import Release


@contextmanager
def told_what_is_left(run: DurableRelease | Release, output: str | None) -> Iterator[None]:
    """Add it to an error on its way to the user. What was refused for privacy explains itself."""
    try:
        yield
    except (TidegateError, KeyboardInterrupt) as error:
        if not isinstance(error, RefusedError):
            with suppress(TidegateError):  # a release that was interrupted may say nothing
                if isinstance(run, DurableRelease):
                    error.add_note(_continued(run))
                else:
                    error.add_note(_spent(run, output))
        raise


def _continued(run: DurableRelease) -> str:
    rows, seen = f"{run.position:,} rows are released", f"the first {run.seen:,} rows"
    again = "run the same command again: it goes on from there, and nothing is spent twice"
    if not run.seen:
        return f"no rows are released. When that is mended, {again}"
    return f"{rows} and stay valid. When that is mended ({seen} must stay as they are), {again}"


def _spent(run: Release, output: str | None) -> str:
    if not run.position:
        return "no rows were released, so no epsilon was spent"
    cost = (
        f"They have spent {run.guarantee}, and a new run spends that again on the same rows: "
        f"release only the rows from {run.seen:,} on (counted from 0), or accept that costs add "
        "up. With --state, the same command would go on where it stopped"
    )
    if output in (None, "-"):
        return f"{run.position:,} rows were released before that. {cost}"
    marked = "and its metadata says that it is not complete"
    return f"{output} holds the first {run.position:,} rows, {marked}. {cost}"
