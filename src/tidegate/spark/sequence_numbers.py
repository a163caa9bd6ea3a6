"""Sort a batch by sequence numbers: late, repeated and missing rows.

Decided by sequence numbers and committed state alone, never by a clock, a watermark or the order
of arrival: a replay decides the same. Rows may be packed: a row holds the values of the sequence
numbers `first`, `first` + 1, …
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import InputError, SettingError
from tidegate.exact_numbers import said
from tidegate.lattice import FloatArray, IntArray

NOTHING_YET = np.iinfo(np.int64).min  # the last sequence number of a key without rows
CLOSE, FILL, REFUSE = "close", "fill", "refuse"
GAPS = (CLOSE, FILL, REFUSE)
_LONGEST_GAP = 1 << 20  # missing values that are filled at once
_FARTHEST = 1 << 61  # of a sequence number from 0: differences of two fit into 64 bits
_REFUSED = (
    "a sequence number is missing. Send the rows again, or choose gaps='fill' (a missing row "
    "counts as 0); gaps='close' (positions count the rows that came) needs a new checkpoint"
)


@dataclass(frozen=True)
class InputRows:
    """Rows of a batch, in any order.

    Attributes:
        names: the distinct keys, sorted.
        codes: of each row: which of the names it has.
        firsts, counts: of each row: the sequence number of its first value, and how many values.
        values, times: of all rows, one after another; times None: rows have none.
    """

    names: NDArray[Any]
    codes: IntArray
    firsts: IntArray
    counts: IntArray
    values: FloatArray
    times: IntArray | None

    def __repr__(self) -> str:  # never shows raw values
        return f"<InputRows of {self.codes.size} rows>"


@dataclass(frozen=True)
class OrderedRows:
    """Values of all keys, key by key, ordered by sequence number.

    Attributes:
        names: the distinct keys of the batch.
        codes, values, times: of each value; times None: rows have none.
        codes_seen, last: the keys that have values, and the newest sequence number of each.
    """

    names: NDArray[Any]
    codes: IntArray
    values: FloatArray
    times: IntArray | None
    codes_seen: IntArray
    last: IntArray

    def __repr__(self) -> str:  # never shows raw values
        return f"<Ordered of {self.codes.size} values>"


def check_gaps(gaps: str) -> None:
    """Refuse an unknown policy."""
    if gaps not in GAPS:
        raise SettingError("gaps", f"must be one of {', '.join(GAPS)}, not {said(gaps)}")


def in_order(rows: InputRows, known: IntArray, gaps: str) -> OrderedRows:
    """Sort a batch; drop late and repeated rows; close, fill or refuse gaps.

    **Privacy.** Neighbours differ in the value of one row. Which values are taken depends on keys,
    sequence numbers and times, which are public; of several rows with one sequence number and one
    time the smallest value is taken, so a changed value still changes one position only.

    Args:
        rows: of the batch.
        known: of each name, the newest sequence number that was taken (`NOTHING_YET`: none).
        gaps: one of `GAPS`.
    """
    codes, firsts, counts = rows.codes, rows.firsts, rows.counts
    values, times = rows.values, rows.times
    if firsts.size and not -_FARTHEST < int(firsts.min()) <= int(firsts.max()) < _FARTHEST:
        raise InputError("a sequence number is below −2^61 or above 2^61: use smaller ones")
    order = np.lexsort((firsts, codes))
    begins = np.cumsum(counts) - counts
    codes, firsts, counts, begins = codes[order], firsts[order], counts[order], begins[order]
    ends = firsts + counts
    same = codes[1:] == codes[:-1]
    if (same & (firsts[1:] < ends[:-1])).any():  # several rows for one sequence number
        places = _ranges(begins, counts)
        each, numbers = np.repeat(codes, counts), _ranges(firsts, counts)
        worth = values[places]
        when = np.zeros(0) if times is None else times[places]
        chosen = np.lexsort(
            (worth, numbers, each) if times is None else (worth, when, numbers, each)
        )
        each, numbers, places = each[chosen], numbers[chosen], places[chosen]
        new = np.ones(each.size, dtype=np.bool_)
        new[1:] = (each[1:] != each[:-1]) | (numbers[1:] != numbers[:-1])
        codes, firsts, begins = each[new], numbers[new], places[new]
        counts, ends = np.ones(codes.size, dtype=np.int64), firsts + 1
    late = np.clip(known[codes] + 1 - firsts, 0, counts) if codes.size else counts
    late[known[codes] == NOTHING_YET] = 0
    taken = late < counts
    codes, ends = codes[taken], ends[taken]
    firsts, counts = (firsts + late)[taken], (counts - late)[taken]
    here = _places_in_sequence((begins + late)[taken], counts)
    values, times = values[here], None if times is None else times[here]
    starts = np.ones(codes.size, dtype=np.bool_)
    starts[1:] = codes[1:] != codes[:-1]
    before = np.empty_like(firsts)  # the sequence number before each row
    before[1:] = ends[:-1] - 1
    before[starts] = known[codes[starts]]
    missing = np.where(before == NOTHING_YET, 0, firsts - 1 - before)
    each = np.repeat(codes, counts)
    if missing.any() and gaps != CLOSE:
        if gaps == REFUSE:
            raise InputError(_REFUSED)
        if missing.sum() > _LONGEST_GAP:
            raise InputError(
                f"more than {_LONGEST_GAP} sequence numbers are missing: are they numbered one by "
                "one? Choose gaps='close' if not"
            )
        at = np.repeat(np.cumsum(counts) - counts, missing)
        values = np.insert(values, at, np.nan)
        each = np.insert(each, at, np.repeat(codes, missing))
        if times is not None:  # of the row that follows: a missing row has none of its own
            times = np.insert(times, at, times[at])
    closing = np.ones(codes.size, dtype=np.bool_)
    closing[:-1] = starts[1:]
    return OrderedRows(rows.names, each, values, times, codes[closing], ends[closing] - 1)


def _places_in_sequence(starts: IntArray, counts: IntArray) -> IntArray | slice:
    """The indices of `_ranges`, as a slice if consecutive, so that nothing is copied."""
    ends = starts + counts
    if starts.size and (starts[1:] == ends[:-1]).all():
        return slice(int(starts[0]), int(ends[-1]))
    return _ranges(starts, counts)


def _ranges(starts: IntArray, counts: IntArray) -> IntArray:
    """starts[0], starts[0] + 1, … (counts[0] of them), starts[1], …"""
    if (counts == 1).all():
        return starts
    shift = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    found: NDArray[Any] = np.arange(shift.size) + shift
    return found
