"""Keys as text, and their codes: numbers from 0 on, in order of declaration or first row.

Keys are public by definition, if they were declared or are said to be public; a key that is not
declared is news about a row, so it is dropped, counted, and shown nowhere.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import InputError, SettingError
from tidegate.exact_numbers import said
from tidegate.lattice import IntArray
from tidegate.tables.columns_to_numpy import MISSING, library_of_column
from tidegate.tables.repeated_items import RepeatedItems

UNDECLARED = -1
_LONGEST = 1000  # characters of a key
_WIDEST = 3_320  # bits of a whole number: fewer than _LONGEST digits
# Equal objects of these types have the same text. Others are not looked up as they are: Decimal(17)
# is not a key, and would be found as 17 if that had come before, but not after a restart.
_PLAIN = frozenset((str, int, float, bool, bytes, type(None)))
_TABLE = 1 << 22  # whole numbers below this are looked up in a table


class KeyNames:
    """The keys of a run, in order of declaration or first row.

    Args:
        declared: all keys that there can be; None: every key that comes is taken.
        more: whether keys are taken that are not declared; None: only if none is.
    """

    def __init__(self, declared: Sequence[str] | None, *, more: bool | None = None) -> None:
        self.open = declared is None if more is None else more
        self.names: list[str] = []
        self._codes = _CodesOfNames()  # codes of texts, and of keys in other spellings
        self._table = np.full(0, UNDECLARED, dtype=np.int32)  # codes of whole numbers: 8 bytes each
        self._new: dict[str, int] = {}  # keys of the rows that are looked at, not added yet
        self._counting = True  # the keys are 0, 1, 2, …: their own codes
        if declared and not any(map(str.isdigit, declared)) and len({*declared}) == len(declared):
            self.names += declared  # many times as fast as one by one
            self._codes.update(zip(declared, range(len(declared)), strict=True))
            self._counting = False
            return
        for name in declared or ():
            self.add(name)

    def __len__(self) -> int:
        return len(self.names)

    def add(self, name: str) -> int:
        """The code of a key, which is added if it is new."""
        code = self._known(name)
        if code != UNDECLARED:
            return code
        code = len(self.names)
        number = _number_of_key(name)
        self._counting = self._counting and number == code
        if number is None:
            self._codes[name] = code
        else:
            self._extend(number)[number] = code
        self.names.append(name)
        return code

    def _known(self, name: str) -> int:
        number = _number_of_key(name)
        if number is None:
            return self._codes[name]
        return int(self._table[number]) if number < self._table.size else UNDECLARED

    def code(self, key: Any) -> int | None:
        """The code of a key in any spelling. None: there is no such key."""
        code = self._known(key_text(key))
        return None if code == UNDECLARED else code

    def codes(self, keys: Any, count: int, position: int) -> IntArray:
        """The code of each row; `UNDECLARED` where the key is unknown.

        If keys are open, new ones get the codes that they will have once `add_new` is called: a
        push that is refused, or cut short before it changes anything, adds no key.

        Raises:
            InputError: there are not as many keys as values, or one is no key.
        """
        self._new = {}
        distinct, inverse = _distinct_keys(keys)
        size = len(distinct) if inverse is None else inverse.size
        if size != count:
            raise InputError(f"{count} values but {size} keys")
        found = self._numbered(distinct) if isinstance(distinct, np.ndarray) else None
        if found is None:
            distinct = distinct.tolist() if isinstance(distinct, np.ndarray) else distinct
            if not _PLAIN.issuperset(map(type, distinct)):
                distinct = [_plain_key(key) for key in distinct]
            try:
                found = np.fromiter(map(self._codes.__getitem__, distinct), np.int64, len(distinct))
            except TypeError:  # a list, or what else cannot be a key
                raise InputError("keys must be texts or whole numbers") from None
        unknown = np.flatnonzero(found == UNDECLARED)
        if unknown.size:
            self._look_up(distinct, unknown, found, (position, inverse))
        return found if inverse is None else found[inverse]

    def add_new(self) -> None:
        """Add the keys that `codes` met for the first time."""
        for name in self._new:
            self.add(name)
        self._new = {}

    def _look_up(
        self, distinct: Any, unknown: IntArray, found: IntArray, where: tuple[int, IntArray | None]
    ) -> None:
        """The codes of keys in unknown spellings; adds new keys if keys are not declared."""
        written = [distinct[at] for at in unknown.tolist()]
        texts = {key: _key_text_or_none(key) for key in dict.fromkeys(written)}
        if self.open and None in texts.values():
            row = unknown[next(at for at, key in enumerate(written) if texts[key] is None)]
            position, inverse = where
            row = row if inverse is None else np.flatnonzero(inverse == row)[0]
            raise InputError(
                f"key at position {position + row} is missing, or is neither printable text nor a "
                "whole number. Declare the keys, and rows without one are dropped"
            )
        codes = {}
        for key, text in texts.items():
            code = UNDECLARED if text is None else self._known(text)
            if code != UNDECLARED:
                self._codes[key] = code  # as it is written, for the next rows
            elif text is not None and self.open:
                code = self._new.setdefault(text, len(self.names) + len(self._new))
            codes[key] = code
        found[unknown] = [codes[key] for key in written]

    def _numbered(self, numbers: NDArray[Any]) -> IntArray | None:
        """The codes of integer keys. None: they are too large for the table."""
        if not numbers.size or numbers.min() < 0 or numbers.max() >= _TABLE:
            return None
        if self._counting and numbers.max() < len(self.names):
            return np.asarray(numbers, dtype=np.int64)
        return np.asarray(self._extend(int(numbers.max()))[numbers], dtype=np.int64)

    def _extend(self, number: int) -> NDArray[np.int32]:
        if number >= self._table.size:
            room = min(_TABLE, max(number + 1, 5 * self._table.size // 4))
            larger = np.full(room, UNDECLARED, dtype=np.int32)
            larger[: self._table.size] = self._table
            self._table = larger
        return self._table


class _CodesOfNames(dict[Any, int]):
    """A dictionary from a few spellings of each key (7, 7.0, "7"); others are undeclared."""

    def __missing__(self, key: Any) -> int:
        return UNDECLARED


def _plain_key(key: Any) -> Any:
    """A key of any type as text. None: it cannot be a key."""
    if getattr(key, "__hash__", None) is None:
        raise InputError("keys must be texts or whole numbers")
    return key if type(key) in _PLAIN else _key_text_or_none(key)


def declared_keys(keys: Iterable[Any]) -> tuple[str, ...]:
    """Declared keys as text, each once.

    Raises:
        SettingError: there are none, one is no key, or one comes twice, perhaps in another Unicode
            form or with a space.
    """
    if isinstance(keys, str | bytes):
        raise SettingError("keys", "must be a list of keys, such as ['north', 'south']")
    names = [key_text(key) for key in keys]
    if not names:
        raise SettingError("keys", "must be at least one")
    seen: set[str] = set()
    for name in names:
        alike = unicodedata.normalize("NFC", name).strip()  # what no reader could tell apart
        if alike in seen:
            raise SettingError("keys", f"{said(name)} is declared twice")
        seen.add(alike)
    return tuple(names)


def key_text(key: Any) -> str:
    """A key in a declaration or a query, as text."""
    text = _key_text_or_none(key)
    if text is None:
        raise SettingError("keys", f"a key is a text of up to {_LONGEST} characters, or a number")
    return text


def key_texts(keys: Any) -> list[str | None]:
    """Each key as text, from a column of any library; None where it is missing or cannot be a key.

    >>> key_texts([17, 17.0, b"17", None])
    ['17', '17', '17', None]
    """
    return repeated_key_texts(keys).tolist()


def repeated_key_texts(keys: Any) -> RepeatedItems:
    """The same, with each text once where keys come that way: rows of a file are many."""
    distinct, places = _distinct_keys(keys)
    listed = distinct.tolist() if isinstance(distinct, np.ndarray) else distinct
    if _PLAIN.issuperset(map(type, listed)):  # each is looked at once
        known = {key: _key_text_or_none(key) for key in dict.fromkeys(listed)}
        texts = [known[key] for key in listed]
    else:  # what is equal may be no key: see `_PLAIN`
        texts = [_key_text_or_none(_plain_key(key)) for key in listed]
    return RepeatedItems.of(texts) if places is None else RepeatedItems(texts, places)


def _key_text_or_none(key: Any) -> str | None:
    """Text as it is, integers in digits. None: missing, or no key."""
    if isinstance(key, bytes):
        key = key.decode("utf-8", "replace")
    if isinstance(key, str):
        printable = 0 < len(key) <= _LONGEST and not any(sign in key for sign in "\n\r\0")
        return str(key) if printable and key.isprintable() else None
    if type(key).__name__ in MISSING:
        return None
    if isinstance(key, int | np.integer | np.bool_):
        number = int(key)
        return str(number) if number.bit_length() <= _WIDEST else None
    if isinstance(key, float | np.floating) and np.isfinite(key) and int(key) == key:
        return str(int(key))  # pandas turns whole numbers into floats where one is missing
    return None


def _number_of_key(name: str) -> int | None:
    """The integer that a key spells, if the table has room for it."""
    if not (name.isascii() and name.isdigit() and len(name) <= len(str(_TABLE))):
        return None
    number = int(name)
    return number if number < _TABLE and str(number) == name else None


def _distinct_keys(keys: Any) -> tuple[Any, IntArray | None]:
    """Items, and which of them each row has. None: an item for each row, one after another.

    Texts of Arrow are encoded there, many times as fast as looked up one by one.
    """
    if isinstance(keys, RepeatedItems):
        return keys.distinct, keys.places
    library = library_of_column(keys)
    if library == "polars":
        keys, library = keys.to_arrow(), "pyarrow"
    if library == "pyarrow" and hasattr(keys, "dictionary_encode"):
        return _keys_encoded_by_arrow(keys)
    if library == "pandas" and hasattr(keys, "to_numpy"):
        keys = keys.to_numpy()
    return _listed_keys(keys), None


def _keys_encoded_by_arrow(keys: Any) -> tuple[list[Any], IntArray]:
    """The distinct keys of an Arrow column, and which of them each row has."""
    encoded = keys if hasattr(keys, "indices") else keys.dictionary_encode()
    encoded = encoded.combine_chunks() if hasattr(encoded, "combine_chunks") else encoded
    if hasattr(encoded, "chunks"):  # one or none of them, by the version
        encoded = encoded.chunk(0) if encoded.num_chunks else encoded.type.wrap_array([])
    indices = encoded.indices.fill_null(len(encoded.dictionary))
    inverse = np.asarray(indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    missing = [None] if encoded.indices.null_count else []
    return [*encoded.dictionary.to_pylist(), *missing], inverse


def _listed_keys(keys: Any) -> Any:
    """The keys as a list, or as an array if all are integers that fit."""
    refusal = InputError("keys must be a list or a column of keys, one for each value")
    if isinstance(keys, str | bytes):
        raise refusal
    if isinstance(keys, np.ndarray):
        if keys.ndim != 1:
            raise refusal
        whole = keys.dtype.kind in "iu" and not hasattr(keys, "mask")
        return keys if whole else keys.tolist()  # what is masked becomes None
    try:
        listed = list(keys)
        if listed and all(type(key) is int for key in listed):
            numbers = np.array(listed)
            return numbers if numbers.dtype.kind in "iu" else listed
        return listed
    except TypeError:
        raise refusal from None
