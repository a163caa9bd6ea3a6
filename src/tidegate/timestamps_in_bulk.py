"""Read many times of one format together: texts of a few lengths and zones."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.clock import SECOND, UNITS
from tidegate.lattice import IntArray

ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?)?"
    r"\s*(Z|z|[+-]\d\d(?::?\d\d)?)?"
)
FIRST_YEAR, LAST_YEAR = 1678, 2261  # what 64 bits of nanoseconds hold
_FEWEST = 16  # below, looking at each is as fast
_DIGITS = 18  # that fit 64 bits
_MOST_KINDS = 16  # lengths, or zones, that are told apart


def unit_of(number: float) -> str:
    """The unit of a number since 1970, by its size."""
    size = abs(number)
    return "s" if size < 1e11 else "ms" if size < 1e14 else "us" if size < 1e17 else "ns"


def offset(zone: str) -> int:
    """What an end such as Z or +01:00 is ahead of universal time, in nanoseconds."""
    if zone in ("", "Z", "z"):
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[3:].removeprefix(":") or 0)
    return (-minutes if zone[0] == "-" else minutes) * 60 * SECOND


Read = tuple[IntArray, bool, str | None]  # nanoseconds, whether instants, the unit of numbers


def times_alike(values: list[Any], unit: str | None) -> Read | None:
    """Nanoseconds, whether they are instants, and the unit of numbers; None: look at each.

    Times that were written with as many decimals as they need, or before and after the clocks
    change, have a few lengths and zones: those of one length and zone are read together.
    """
    if len(values) < _FEWEST or type(values[0]) not in (str, bytes):
        return None
    if len(set(map(type, values))) > 1:
        return None
    try:
        texts = np.array(values, dtype="S")
    except (UnicodeEncodeError, ValueError, TypeError):
        return None
    letters = texts.view(np.uint8).reshape(len(values), -1)
    lengths = np.count_nonzero(letters, axis=1)
    if int(lengths.sum()) != sum(map(len, values)) or not lengths.all():
        return None  # numpy does not see zeros at the end of a text
    return _by_kind(letters, lengths, unit, _of_one_length)


def _by_kind(
    letters: NDArray[np.uint8],
    kinds: NDArray[Any],
    unit: str | None,
    read: Callable[[NDArray[np.uint8], str | None], Read | None],
) -> Read | None:
    """Rows of one kind together, those like the first row first; None: they differ too much."""
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


def _of_one_length(letters: NDArray[np.uint8], unit: str | None) -> Read | None:
    width = int(np.count_nonzero(letters[0]))
    letters = np.ascontiguousarray(letters[:, :width])
    first = letters[0].tobytes()
    if first.isdigit():
        return _numbers(letters, unit)
    shape = ISO.fullmatch(first.decode("ascii", "replace"))
    if shape is None or b"," in first:
        return None
    if len(shape[8] or "") > 1:  # numbers ahead of universal time
        zones = np.ascontiguousarray(letters[:, -len(shape[8]) :]).view(f"S{len(shape[8])}")
        return _by_kind(letters, zones.reshape(-1), unit, _of_one_zone)
    return _of_one_zone(letters, unit)


def _of_one_zone(letters: NDArray[np.uint8], _unit: str | None) -> Read | None:
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
    if not (letters[:, ~digit] == model[~digit]).all() or not _are_digits(numeric):
        return None
    years = (body[:, :4].astype(np.int64) - 48) @ np.array([1000, 100, 10, 1])
    if years.min() < FIRST_YEAR or years.max() > LAST_YEAR:
        return None
    try:
        bare = np.ascontiguousarray(body).view(f"S{body.shape[1]}").reshape(-1)
        ticks = bare.astype("datetime64[ns]").astype(np.int64)
    except ValueError:  # no such day: looking at each finds it
        return None
    return ticks - offset(zone), bool(zone), None


def _numbers(letters: NDArray[np.uint8], unit: str | None) -> tuple[IntArray, bool, str] | None:
    """Whole numbers of the same number of digits."""
    width = letters.shape[1]
    if width > _DIGITS or not _are_digits(letters):
        return None
    found = (letters.astype(np.int64) - 48) @ (10 ** np.arange(width - 1, -1, -1, dtype=np.int64))
    known = unit or unit_of(float(found[0]))
    size = UNITS[known]
    if int(found.max()) > (2**63 - 1) // size:
        return None
    return found * size, True, known


def _are_digits(letters: NDArray[np.uint8]) -> bool:
    return bool(((letters >= 48) & (letters <= 57)).all())
