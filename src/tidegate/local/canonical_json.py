"""Messages as text: JSON in one spelling, parsed so strictly that two readers cannot differ."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, NoReturn

from tidegate.errors import SettingError, TidegateError

VERSION = 1
PHASES = ("threshold", "stream")
# Characters, or bytes. The largest table that Tidegate asks with (129 × 131 weights) makes an
# announcement of 141,000; a report in which every character of its names is escaped has 2,000.
LONGEST = {"announcement": 1 << 18, "report": 1 << 12, "round": 1 << 12, "outcomes": 1 << 22}
SLOTS = 1 << 16
NAME = re.compile(r"[!-~]{1,128}", re.ASCII)
EXACT = re.compile(r"([1-9][0-9]{0,17})(?:/([1-9][0-9]{0,17}))?", re.ASCII)


class MessageError(TidegateError, ValueError):
    """A message cannot be used: malformed, or of another version. Nothing was recorded.

    Attributes:
        reason: one of "malformed" and "version".
    """

    def __init__(self, problem: str, reason: str = "malformed") -> None:
        super().__init__(problem, reason)
        self.problem = problem
        self.reason = reason

    def _message(self) -> str:
        return self.problem


def written_json(plain: Mapping[str, Any]) -> str:
    """A message as one line of text."""
    return _ENCODER.encode(plain)


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def canonical_digest(plain: Mapping[str, Any]) -> str:
    """SHA-256 of a message in its canonical spelling (sorted keys, no spaces, ASCII), in hex."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def read_canonical_json(text: object, kind: str, fields: int, optional: str = "") -> dict[str, Any]:
    """Parse an object of this kind and version; it must have exactly `fields` fields.

    One more may be there, if it is the `optional` one.
    """
    if not isinstance(text, str | bytes):
        raise MessageError(f"{kind}: must be text")
    if len(text) > LONGEST[kind]:  # before any work
        raise MessageError(f"{kind}: longer than {LONGEST[kind]} characters")
    try:
        plain = _DECODER.decode(text if isinstance(text, str) else text.decode("utf-8"))
    except MessageError as error:
        raise MessageError(f"{kind}: {error}") from None
    except (ValueError, RecursionError):  # text that is not UTF-8 is a ValueError too
        raise MessageError(f"{kind}: not JSON") from None
    if not isinstance(plain, dict) or plain.get("kind") != kind:
        raise MessageError(f"{kind}: must be an object of this kind")
    version = plain.get("tidegate")
    if type(version) is not int or version != VERSION:
        raise MessageError(f"{kind}: its version must be {VERSION}", "version")
    if len(plain) != fields + (optional in plain):
        raise MessageError(f"{kind}: must have exactly {fields} fields")
    return plain


def _pairs_of_json(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse two equal names in an object: two readers may differ on which one counts."""
    plain = dict(pairs)
    if len(plain) != len(pairs):
        raise MessageError("a name occurs twice")
    return plain


def _json_constant(_: str) -> NoReturn:
    raise MessageError("NaN and Infinity are no JSON")


def _number_in_json(text: str) -> int | float:
    """A number as a double, as in JavaScript: 3.0 is 3 there, and 2**53 + 1 is 2**53."""
    number = float(text)
    return int(number) if number.is_integer() else number


def _whole_number_in_json(text: str) -> int | float:
    """A number from a text without a fraction: up to 15 characters, every double is exact."""
    return int(text) if len(text) <= 15 else _number_in_json(text)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs_of_json,
    parse_constant=_json_constant,
    parse_int=_whole_number_in_json,
    parse_float=_number_in_json,
)


class naming_json_message:  # noqa: N801  # reads as a verb in `with`
    """Add the name of the message to errors about its fields."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, SettingError):
            raise MessageError(f"{self._kind}: {error}") from None
        if isinstance(error, ArithmeticError):  # weights or outputs beyond every float
            raise MessageError(f"{self._kind}: question: its numbers are too large") from None


def common_json_fields(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that announcements and reports share."""
    phase = json_field(plain, "phase")
    if phase not in PHASES:
        raise SettingError("phase", f"must be one of {', '.join(PHASES)}")
    return {
        "round": json_name(plain, "round"),
        "phase": phase,
        "epsilon": exact_json_fraction(plain, "epsilon"),
        "slot": whole_field(plain, "slot", 0, SLOTS - 1),
    }


def json_field(plain: Mapping[str, Any], name: str) -> Any:
    """A required field."""
    if name not in plain:
        raise SettingError(name, "is missing")
    return plain[name]


def json_name(plain: Mapping[str, Any], name: str) -> str:
    """The name of a round or of a client."""
    value = json_field(plain, name)
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise SettingError(name, "must be text of 1 to 128 ASCII characters, without spaces")
    return value


def exact_json_fraction(plain: Mapping[str, Any], name: str) -> Fraction:
    """A positive fraction in its one spelling; short, so that sums of many stay short."""
    value = json_field(plain, name)
    number = json_fraction(value) if isinstance(value, str) else None
    if number is None:
        raise SettingError(
            name, 'must be a fraction in lowest terms of at most 18 digits, such as "1" or "1/2"'
        )
    return number


def lower_json_fraction(plain: Mapping[str, Any], name: str) -> Fraction:
    """A negative fraction in its one spelling; 0 if the field is missing."""
    if name not in plain:
        return Fraction(0)
    value = plain[name]
    below = isinstance(value, str) and value.startswith("-")
    number = json_fraction(value[1:]) if below else None
    if number is None:
        raise SettingError(
            name, 'must be a fraction below 0 in lowest terms, such as "-40"; without it, 0'
        )
    return -number


def whole_field(plain: Mapping[str, Any], name: str, least: int, largest: int) -> int:
    """A whole number of a message, within limits."""
    return whole_json_number(plain.get(name), name, least, largest)


def whole_json_number(value: object, name: str, least: int, largest: int) -> int:
    """A whole number within limits; `name` is for the message."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= largest:
        raise SettingError(name, f"must be a whole number from {least} to {largest}")
    return value


def finite_json_number(value: object, name: str, largest: float) -> float:
    """A finite number of a message, within ±largest."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SettingError(name, "must be a number")
    # Compared before it is converted: an integer may be larger than every float.
    if not abs(value) <= largest:
        raise SettingError(name, f"must be from {-largest:g} to {largest:g}")
    return float(value)


@lru_cache(maxsize=64)  # millions of reports say the same epsilon
def json_fraction(text: str) -> Fraction | None:
    """A positive fraction in its one spelling, with at most 18 digits. None: it is not one."""
    if not EXACT.fullmatch(text):
        return None
    number = Fraction(text)
    return number if str(number) == text else None


_PLAIN_NAME = r'"([!#-\[\]-~]{1,128})"'  # characters that JSON need not escape
_PLAIN_WHOLE = "(0|[1-9][0-9]{0,14})"  # every double of up to 15 digits is exact
_WRITTEN = re.compile(
    rf'{{"tidegate":{VERSION},"kind":"report","round":{_PLAIN_NAME},"phase":"([a-z]{{1,16}})",'
    rf'"epsilon":"([0-9/]{{1,37}})","slot":{_PLAIN_WHOLE},"client":{_PLAIN_NAME},"report":{_PLAIN_WHOLE}}}'
)


def report_from_canonical_json(text: object, outputs: int) -> dict[str, Any] | None:
    """The fields of a valid report in the spelling of Tidegate's devices, read by one pattern.

    Servers read millions of them. None: it is spelled otherwise, or not valid (its answer must be
    below `outputs`), and is read field by field, which says what is wrong. Both give the same.
    """
    if not isinstance(text, str | bytes):
        return None
    found = _WRITTEN.fullmatch(text if isinstance(text, str) else text.decode("latin-1"))
    if found is None:
        return None
    name, phase, budget, place, client, answer = found.groups()
    epsilon, slot, report = json_fraction(budget), int(place), int(answer)
    if phase not in PHASES or epsilon is None or slot >= SLOTS or report >= outputs:
        return None
    common = {"round": name, "phase": phase, "epsilon": epsilon, "slot": slot}
    return {**common, "client": client, "report": report}
