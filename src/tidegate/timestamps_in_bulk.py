"""Read many times of one format together: texts of a few lengths and zones."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.clock import SECOND, UNITS
from tidegate.errors import InputError
from tidegate.lattice import IntArray

ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?)?"
    r"\s*(Z|z|[+-]\d\d(?::?\d\d)?)?"
)
FIRST_YEAR, LAST_YEAR = 1678, 2261  # what 64 bits of nanoseconds hold
_FEWEST = 16  # below, looking at each is as fast
_DIGITS = 18  # that fit 64 bits
_MOST_KINDS = 16  # lengths, or zones, that are told apart
_YEAR_1980 = 3652 * 86_400 * SECOND
LIKE_A_DATE = "looks like a date without separators, not like a number since 1970"
# Nanoseconds, in 2262: as a float, so that rounding cannot lead beyond 64 bits.
_FARTHEST = 2.0**63 - 2.0**41
_LONGEST = 64  # letters: an array has room for the longest text in every row


def unit_of_timestamp(number: float) -> str:
    """The unit of a number of units since 1970, judged by its size."""
    size = abs(number)
    return "s" if size < 1e11 else "ms" if size < 1e14 else "us" if size < 1e17 else "ns"


EACH = "each"
"""In place of a unit: every number is read by its own size. For events: see `read_times`."""


def unit_sizes_in_bulk(numbers: NDArray[Any]) -> IntArray:
    """The unit of each number since 1970, judged one by one, in nanoseconds."""
    sizes = np.abs(numbers.astype(np.float64))
    limits = [sizes < 1e11, sizes < 1e14, sizes < 1e17]
    found: IntArray = np.select(limits, [UNITS["s"], UNITS["ms"], UNITS["us"]], UNITS["ns"])
    return found


def beyond_timestamps(position: int) -> str:
    """That a time cannot be kept in 64 bits."""
    return f"time at position {position} is not in the years {FIRST_YEAR} to {LAST_YEAR}"


def timestamps_from_numbers(
    array: NDArray[Any], position: int, unit: str | None
) -> tuple[IntArray, bool, str]:
    """Numbers since 1970 in nanoseconds; that they are instants; and their unit."""
    with np.errstate(over="ignore"):  # a longer float than 64 bits may become infinite
        sizes = np.abs(array.astype(np.float64))
    wrong = np.flatnonzero(~np.isfinite(sizes))
    if wrong.size:
        raise InputError(f"time at position {position + int(wrong[0])} is missing")
    dates = dates_among({None: array[:1], EACH: array}.get(unit, array[:0]))
    if dates.size:
        raise InputError(f"time at position {position + int(dates[0])} {LIKE_A_DATE}")
    known = unit or (unit_of_timestamp(array[0].item()) if array.size else "s")
    size = unit_sizes_in_bulk(array) if known == EACH else np.int64(UNITS[known])
    wrong = np.flatnonzero(sizes >= _FARTHEST / size)  # a product could overflow
    if wrong.size:
        raise InputError(beyond_timestamps(position + int(wrong[0])))
    if array.dtype.kind == "f":  # a float of seconds knows microseconds
        grain = np.maximum(1, size // 10**6)
        ticks = np.rint(array * (size // grain)).astype(np.int64) * grain
    else:
        ticks = array.astype(np.int64) * size
    return ticks, True, known


def dates_among(numbers: NDArray[Any]) -> IntArray:
    """Which numbers look like dates (`looks_like_a_date`)."""
    days, minutes = (19000101, 21001231), (190001010000, 210012312359)
    likely = np.zeros(numbers.size, dtype=np.bool_)
    for least, most in (days, minutes):
        likely |= (numbers >= least) & (numbers <= most)
    some = np.flatnonzero(likely)
    found = [at for at in some.tolist() if looks_like_a_date(float(numbers[at]))]
    return np.array(found, dtype=np.int64)


def looks_like_a_date(number: float) -> bool:
    """Whether a number looks like a date without separators, such as 20240201, not like seconds.

    As seconds it would lie in August 1970, with hours and minutes in 1976: nobody means that.

    >>> [looks_like_a_date(one) for one in (20240201, 202402011230, 1706745600, 20241301)]
    [True, True, False, False]
    """
    text = f"{number:.0f}"
    if len(text) not in (8, 12) or number % 1:
        return False
    year, month, day = int(text[:4]), int(text[4:6]), int(text[6:8])
    clock = [int(text[at : at + 2]) for at in range(8, len(text), 2)]
    return (
        1900 <= year <= 2100
        and 1 <= month <= 12
        and 1 <= day <= 31
        and all(one < limit for one, limit in zip(clock, (24, 60), strict=False))
    )


def doubt_about_numbers(unit: str | None, newest: int) -> str:
    """A remark on strange times that end at `newest`, if they are numbers; may be empty.

    Days of a spreadsheet (45,292 is 1 January 2024) and seconds of a run lie in the first hours of
    1970.
    """
    if unit is None or newest >= _YEAR_1980:
        return ""
    return "times are read as numbers since 1970, and lie before 1980: are they?"


def offset_of_timestamp(zone: str) -> int:
    """The offset of a suffix such as Z or +01:00 from universal time, in nanoseconds."""
    if zone in ("", "Z", "z"):
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[3:].removeprefix(":") or 0)
    return (-minutes if zone[0] == "-" else minutes) * 60 * SECOND


Read = tuple[IntArray, bool, str | None]  # nanoseconds, whether instants, the unit of numbers


def timestamps_alike(values: list[Any], unit: str | None) -> Read | None:
    """Nanoseconds, whether they are instants, and the unit of numbers. None: read one by one.

    Times that were written with as many decimals as they need, or before and after the clocks
    change, have a few lengths and zones: those of one length and zone are read together.
    """
    if len(values) < _FEWEST or type(values[0]) not in (str, bytes):
        return None
    if len(set(map(type, values))) > 1 or max(map(len, values)) > _LONGEST:
        return None
    try:
        texts = np.array(values, dtype="S")
    except (UnicodeEncodeError, ValueError, TypeError):
        return None
    letters = texts.view(np.uint8).reshape(len(values), -1)
    lengths = np.count_nonzero(letters, axis=1)
    if int(lengths.sum()) != sum(map(len, values)) or not lengths.all():
        return None  # numpy does not see zeros at the end of a text
    return _bulk_by_kind(letters, lengths, unit, _bulk_of_one_length)


def _bulk_by_kind(
    letters: NDArray[np.uint8],
    kinds: NDArray[Any],
    unit: str | None,
    read: Callable[[NDArray[np.uint8], str | None], Read | None],
) -> Read | None:
    """Rows grouped by kind, those like the first row first. None: they differ too much."""
    if (kinds == kinds[0]).all():
        return read(letters, unit)
    different = np.unique(kinds)
    if different.size > _MOST_KINDS:
        return None
    ticks: IntArray = np.empty(len(letters), dtype=np.int64)
    said: tuple[bool, str | None] | None = None
    for kind in sorted(different.tolist(), key=lambda one: one != kinds[0]):
        here = kinds == kind
        found = read(letters[here], unit)
        if found is None or (said is not None and said != found[1:]):
            return None
        ticks[here], said = found[0], found[1:]
        unit = found[2]
    return None if said is None else (ticks, *said)


def _bulk_of_one_length(letters: NDArray[np.uint8], unit: str | None) -> Read | None:
    width = int(np.count_nonzero(letters[0]))
    letters = np.ascontiguousarray(letters[:, :width])
    first = letters[0].tobytes()
    if first.isdigit():
        return _numbers_in_bulk(letters, unit)
    shape = ISO.fullmatch(first.decode("ascii", "replace"))
    if shape is None or b"," in first:
        return None
    if len(shape[8] or "") > 1:  # numbers ahead of universal time
        zones = np.ascontiguousarray(letters[:, -len(shape[8]) :]).view(f"S{len(shape[8])}")
        return _bulk_by_kind(letters, zones.reshape(-1), unit, _bulk_of_one_zone)
    return _bulk_of_one_zone(letters, unit)


def _bulk_of_one_zone(letters: NDArray[np.uint8], _unit: str | None) -> Read | None:
    first = letters[0].tobytes()
    shape = ISO.fullmatch(first.decode("ascii", "replace"))
    if shape is None:
        return None
    zone = shape[8] or ""
    body = letters[:, : len(first[: len(first) - len(zone)].rstrip())]
    model = np.frombuffer(first, dtype=np.uint8)
    digit = (model >= 48) & (model <= 57)
    digit[body.shape[1] :] = False  # all of them in one zone
    numeric = letters[:, digit]
    if not (letters[:, ~digit] == model[~digit]).all() or not _are_digits_in_bulk(numeric):
        return None
    years = (body[:, :4].astype(np.int64) - 48) @ np.array([1000, 100, 10, 1])
    if years.min() < FIRST_YEAR or years.max() > LAST_YEAR:
        return None
    ticks = _bulk_ticks(body)
    # No such day or hour: looking at each finds it.
    return None if ticks is None else (ticks - offset_of_timestamp(zone), bool(zone), None)


def _bulk_ticks(body: NDArray[np.uint8]) -> IntArray | None:
    """Nanoseconds of texts such as 2024-02-01T12:00:00.25. None: one of them is not a time.

    By hand: numpy's own conversion of many texts ends the process where one is no time.
    """
    year, month, day = _bulk_field(body, 0, 4), _bulk_field(body, 5, 7), _bulk_field(body, 8, 10)
    if month.min() < 1 or month.max() > 12:
        return None
    months = (year - 1970) * 12 + month - 1
    first, following = (months.astype("datetime64[M]"), (months + 1).astype("datetime64[M]"))
    starts, ends = (one.astype("datetime64[D]").astype(np.int64) for one in (first, following))
    hour, minute, second = (_bulk_field(body, at, at + 2) for at in (11, 14, 17))
    if day.min() < 1 or (day > ends - starts).any():
        return None
    decimals = body[:, 20:]
    part = _bulk_field(decimals, 0, decimals.shape[1]) * 10 ** (9 - decimals.shape[1])
    if hour.max() > 24 or minute.max() > 59 or second.max() > 59:
        return None
    if ((hour == 24) & (minute + second + part > 0)).any():  # 24:00 is the end of the day
        return None
    seconds = (((starts + day - 1) * 24 + hour) * 60 + minute) * 60 + second
    found: IntArray = seconds * SECOND + part
    return found


def _bulk_field(letters: NDArray[np.uint8], start: int, end: int) -> IntArray:
    """The whole numbers between two columns of the texts; 0 where a text ends before."""
    digits = letters[:, start:end].astype(np.int64) - 48
    found: IntArray = digits @ (10 ** np.arange(digits.shape[1] - 1, -1, -1, dtype=np.int64))
    return found


def _numbers_in_bulk(
    letters: NDArray[np.uint8], unit: str | None
) -> tuple[IntArray, bool, str] | None:
    """Whole numbers of the same number of digits."""
    width = letters.shape[1]
    if width > _DIGITS or not _are_digits_in_bulk(letters):
        return None
    found = _bulk_field(letters, 0, width)
    doubtful = {None: found[:1], EACH: found}.get(unit, found[:0])
    if dates_among(doubtful).size:
        return None  # looking at each says so
    known = unit or unit_of_timestamp(float(found[0]))
    size = unit_sizes_in_bulk(found) if known == EACH else np.int64(UNITS[known])
    if (found > (2**63 - 1) // size).any():
        return None
    return found * size, True, known


def _are_digits_in_bulk(letters: NDArray[np.uint8]) -> bool:
    return bool(((letters >= 48) & (letters <= 57)).all())
