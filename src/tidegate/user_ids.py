"""User ids: one canonical form for every way of writing an id.

A cap per user holds only if one user is always the same user. So an id is brought to one form, or
refused with the reason; the id itself is never shown.

| given | user |
| --- | --- |
| text | itself in Unicode form NFC, without surrounding white space |
| a whole number: 17, numpy.int64(17), 17.0 | its decimal digits, "17": CSV has only text |
| bytes in UTF-8 | that text |
| None, NaN, NA, empty text | nobody: the value counts as 0 |
| anything else: True, 1.5, a list, invisible characters | refused |

Privacy. Ids that become one share one cap, so each person behind them still has at most as many
values that count; merging is always safe. Splitting is not, so what could be two spellings of one
id and is not merged is refused: whole numbers from 2^53 on as floats (they were rounded), other
numbers, characters that cannot be seen. Upper and lower case, "17" and "017" stay different users:
an id is a name, and names are the caller's.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from tidegate.errors import InputError
from tidegate.tables.columns_to_numpy import MISSING

_LONGEST = 1_000  # characters: the counts of all users are kept in memory and state
_WIDEST = 3_320  # bits: fewer than _LONGEST digits
_ROUNDED = 1 << 53  # from here on a float no longer tells one whole number from the next


_ALONE = ({int}, {float}, {bytes})


class _RefusedError(ValueError):
    """The reason why an id is refused."""


def canonical_users(users: Any, position: int = 0) -> list[str | None]:
    """One canonical id for each value; None: nobody.

    Args:
        users: a list, or an array of numpy, pandas, polars or pyarrow.
        position: where the first of them stands, for the message of an error.

    >>> canonical_users([17, 17.0, b"17", "17 ", None, ""])
    ['17', '17', '17', '17', None, None]
    """
    listed = _listed_users(users)
    kinds = set(map(type, listed)) - {str, type(None)}
    # Users come again, so each is looked at once; not where unlike ones are equal, as True and 1.
    if not kinds or kinds in _ALONE:
        known = {user: _checked_users(user, listed, position) for user in dict.fromkeys(listed)}
        return [known[user] for user in listed]
    return [_checked_users(user, listed, position) for user in listed]


def _checked_users(user: Any, listed: list[Any], position: int) -> str | None:
    try:
        return _user_name(user)
    except _RefusedError as error:
        first = next(index for index, item in enumerate(listed) if item is user)
        message = f"user at position {position + first} {error}: give text or a whole number"
    raise InputError(message)


def _listed_users(users: Any) -> list[Any]:
    """The users as Python objects, which are far faster to iterate over than arrays."""
    if isinstance(users, str | bytes | Mapping | Set):
        raise InputError("users must be a list or an array, one user per value")
    if getattr(users, "ndim", 1) != 1:
        raise InputError("users must have one dimension, one user per value")
    for method in ("to_pylist", "tolist", "to_list"):  # pyarrow, numpy and pandas, polars
        if hasattr(users, method):
            listed: list[Any] = getattr(users, method)()
            return listed
    try:
        return list(users)
    except TypeError:
        raise InputError("users must be a list or an array, one user per value") from None


def _user_name(user: Any) -> str | None:
    if isinstance(user, str):
        return _user_text(str.__str__(user))
    if user is None or type(user).__name__ in MISSING:
        return None
    if isinstance(user, int | np.integer) and not isinstance(user, bool | np.timedelta64):
        number = int(user)
        if number.bit_length() > _WIDEST:
            raise _RefusedError("has too many digits")
        return str(number)
    if isinstance(user, float | np.floating):
        value = float(user)
        if value != value:
            return None
        if abs(value) >= _ROUNDED or value != user or not value.is_integer():
            raise _RefusedError("is a number with a fraction, or too large to be exact")
        return str(int(value))
    if isinstance(user, bytes):
        try:
            return _user_text(user.decode())
        except UnicodeDecodeError:
            raise _RefusedError("is bytes that are not UTF-8") from None
    raise _RefusedError(f"is of type {type(user).__name__}")


def _user_text(text: str) -> str | None:
    if len(text) > _LONGEST:
        raise _RefusedError(f"has more than {_LONGEST} characters")
    name = text.strip()
    if not name.isascii():
        name = unicodedata.normalize("NFC", name).strip()
    if not name.isprintable():  # control and format characters, odd spaces, lone surrogates
        raise _RefusedError("holds characters that cannot be seen")
    return name or None
