"""Changes to text, bytes and plain data, from small ones to absurd ones."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidegate.errors import TidegateError

NUMBERS = [
    "0", "-0", "1", "-1", "0.1", "1/3", "1e3", "1e-3", "1e308", "1e309", "1e999", "1e3000000000",
    "1e-3000000000", "1e99999999999999999999", "nan", "inf", "-inf", "Infinity", "9" * 400,
    "9" * 5000, "0." + "3" * 3000, "1/" + "7" * 900, "1/0", "\uff10", "1_000", " 5 ", "0x10", "1e",
    ".", "+.5", "5.", "", "true", "2**62", "4611686018427387905", "9223372036854775808",
]  # fmt: skip
_ATOMS: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 10**6, 2**31, 2**53, 2**62, 2**63, 10**18, 10**30, 10**400,
    0.5, -0.0, 1e-300, 1e300, float("inf"), float("nan"), "", "x", "event", "kind", [], {}, [[]],
    {"": 0}, {"kind": "perturb.Flat"}, {"$array": "<i8", "size": 10**12},
    {"$array": "O", "size": 1}, {"$bytes": "zz"}, {"$int": 0}, [0] * 50, "é\u2028\ud800",
    "a" * 3000, *NUMBERS,
]  # fmt: skip


class TooLongError(Exception):
    """A message that repeats what it refuses."""


@contextmanager
def refused(most: int = 1000) -> Iterator[None]:
    """An error of ours is fine, if it is short."""
    try:
        yield
    except TidegateError as error:
        if len(str(error)) > most:
            raise TooLongError(f"{len(str(error))} characters") from None


def atom(rng: random.Random) -> Any:
    """One strange thing, sometimes deep."""
    if rng.random() < 0.03:
        value: Any = rng.choice([0, "x", None])
        for _ in range(rng.choice([3, 50, 200])):
            value = (
                [value] if rng.random() < 0.5 else {rng.choice(["a", "kind", "threshold"]): value}
            )
        return value
    return copy.deepcopy(rng.choice(_ATOMS))


def number_text(rng: random.Random) -> str:
    """Something like a number."""
    if rng.random() < 0.5:
        return rng.choice(NUMBERS)
    return "".join(rng.choice("0123456789.eE+-/_ x\uff19") for _ in range(rng.randint(0, 12)))


def mutated(rng: random.Random, value: Any, changes: int | None = None) -> Any:
    """Plain data with a few places changed, dropped, doubled or swapped."""
    result = copy.deepcopy(value)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 4]) if changes is None else changes):
        result = _once(rng, result)
    return result


def _at(rng: random.Random, value: Any, place: Any, other: Any) -> Any:
    """Drop what is at this place, replace it by what is at another, or change it."""
    kind = rng.random()
    if kind < 0.07:
        del value[place]
    else:
        value[place] = copy.deepcopy(value[other]) if kind < 0.11 else _once(rng, value[place])
    return value


def _once(rng: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.95:
        if rng.random() < 0.04:
            value[rng.choice(["x", "", "kind", "state", "epsilon"])] = atom(rng)
            return value
        return _at(rng, value, rng.choice(list(value)), rng.choice(list(value)))
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        if rng.random() < 0.1:
            value.insert(at, copy.deepcopy(value[at]))
            return value
        return _at(rng, value, at, rng.randrange(len(value)))
    kind = rng.random()
    if isinstance(value, int) and not isinstance(value, bool) and kind < 0.4:
        return value + rng.choice([-1, 1, -value, 2**31, -(2**63), value])
    if isinstance(value, str) and kind < 0.4:
        return scrambled(rng, value.encode("utf-8", "replace")).decode("utf-8", "replace")
    if isinstance(value, bytes):
        return scrambled(rng, value)
    return atom(rng)


def scrambled(rng: random.Random, data: bytes, most: int = 4) -> bytes:
    """Bytes with a few changed, cut out, doubled or put in."""
    found = bytearray(data)
    for _ in range(rng.randint(1, most)):
        at = rng.randint(0, len(found))
        kind = rng.randrange(6)
        if kind == 0 and found:
            found[at % len(found)] = rng.randrange(256)
        elif kind == 1:
            del found[at : at + rng.choice([1, 1, 2, 8, 1000])]
        elif kind == 2:
            found[at:at] = found[at : at + rng.choice([1, 4, 40])]
        elif kind == 3:
            found[at:at] = rng.choice(NUMBERS)[:600].encode()
        elif kind == 4:
            found[at:at] = rng.choice(
                [b"\0", b"\n", b"\r", b'"', b",", b"{", b"[", b"}", b"\xff", b"\xef\xbb\xbf", b"=",
                 b"[" * 3000, b'{"a":' * 3000]
            )  # fmt: skip
        else:
            del found[at:]
    return bytes(found)
