"""Take rows with several values as a whole: all their columns, or none.

What the cap or a retired column refuses is found before anything is pushed. Should one column be
refused all the same when another was pushed, the transaction is given up, and tried without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tidegate.durable import DurableRelease, StorageError
from tidegate.errors import TidegateError
from tidegate.guarantee import Guarantee
from tidegate.service.open_streams import OpenStreams
from tidegate.service.pending_requests import PendingPush, Receipt, RequestsOfSameRows

Refused = dict[RequestsOfSameRows, TidegateError]


class UnevenError(TidegateError):
    """One column of a row was taken and another was not: the transaction must be aborted.

    Attributes:
        refused: these rows, and why.
    """

    def __init__(self, refused: Refused) -> None:
        super().__init__("some columns of a row were refused")
        self.refused = refused


def refused_whole_rows(
    requests: Sequence[PendingPush], streams: OpenStreams, known: Callable[[PendingPush], bool]
) -> Refused:
    """Rows that cannot be taken as a whole, with reasons; changes nothing.

    `known`: whether a request was taken before. It is recognised later, and costs nothing.
    """
    together: dict[RequestsOfSameRows, list[PendingPush]] = {}
    for one in requests:
        if one.rows is not None:
            together.setdefault(one.rows, []).append(one)
    refused: Refused = {}
    before: dict[str, int] = {}  # values of this group that come first, by stream
    for rows, columns in together.items():
        try:
            _check_whole_rows(columns, before, streams)
        except StorageError:
            raise
        except TidegateError as error:
            if not known(columns[0]):
                refused[rows] = error
        else:
            for one in columns:
                before[one.stream] = before.get(one.stream, 0) + one.values.size
    return refused


def _check_whole_rows(
    columns: list[PendingPush], before: dict[str, int], streams: OpenStreams
) -> None:
    charges: list[tuple[int, int | None, Guarantee]] = []
    for one in columns:
        run = streams.writable(one.stream)
        if isinstance(run, DurableRelease):
            charges += run.due(before.get(one.stream, 0) + one.values.size)
    if charges:  # over all columns: each may fit under the cap, but not all together
        stream = streams.existing(columns[0].stream)
        streams.ledger.check(stream.source, charges, part=stream.part or "")


def check_rows_are_even(outcomes: Iterable[tuple[PendingPush, Receipt | TidegateError]]) -> None:
    """Refuse to commit rows with a column that was taken and one that was refused.

    Raises:
        UnevenError: memory is ahead of what may be committed.
    """
    taken: set[RequestsOfSameRows] = set()
    failed: Refused = {}
    for one, outcome in outcomes:
        if one.rows is None:
            continue
        if isinstance(outcome, TidegateError):
            failed.setdefault(one.rows, outcome)
        elif not outcome.repeated:
            taken.add(one.rows)
    if uneven := {rows: why for rows, why in failed.items() if rows in taken}:
        raise UnevenError(uneven)
