"""The dialect of a CSV file: separators, decimal sign, and errors that explain a mismatch."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.errors import SettingError

_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_SPELT = {"tab": "\t", "\\t": "\t"}  # what a shell lets through
# Digits by threes; a unit, brackets, a sign of a currency or of percent before or after the digits.
_MARKED = re.compile(rb"[^\d\s,;|]{0,5}\s?[-+]?\d+([, '.]\d{3})*([.,]\d+)?\s?[^\d\s,;|]{0,8}")
_BY_THREES = re.compile(rb"[-+]?\d{1,3}(,\d{3})+")  # 1,234 is either
_DECIMAL_COMMA = re.compile(rb"[-+]?\d*,\d+")


@dataclass(frozen=True)
class CsvDialect:
    """The field separator and the decimal sign. Public: given, never guessed from rows.

    >>> CsvDialect(";", ",").fields(b"a;0,5")
    [b'a', b'0,5']
    """

    delimiter: str = ","
    decimal: str = "."

    def __post_init__(self) -> None:
        if self.delimiter not in _NAMES:
            raise SettingError("delimiter", "must be one of ',' ';' '|' or tab")
        if self.decimal not in (".", ","):
            raise SettingError("decimal", "must be '.' or ','")
        if self.delimiter == self.decimal:
            raise SettingError("decimal", "must not be the delimiter: use --delimiter ';' too")

    @classmethod
    def given(cls, delimiter: str | None, decimal: str | None) -> CsvDialect:
        """The dialect from a user's options. None: the default one."""
        separator = "," if delimiter is None else _SPELT.get(delimiter, delimiter)
        return cls(separator, "." if decimal is None else decimal)

    def fields(self, line: bytes) -> list[bytes]:
        """The fields of one line; empty if its quotes are wrong."""
        line = line.rstrip(b"\r\n")
        if b'"' not in line:
            return line.split(self.delimiter.encode())
        text = line.decode("utf-8", "surrogateescape")
        if "\r" in text or "\n" in text:
            return []
        try:
            # The second line is only reached, and then swallowed, by a quote that was left open.
            rows = list(csv.reader([text, "."], delimiter=self.delimiter))
        except csv.Error:
            return []
        if len(rows) != 2:
            return []
        return [field.encode("utf-8", "surrogateescape") for field in rows[0]]

    def number(self, text: bytes) -> float | None:
        """The number in a field. None: it is not one."""
        if b"_" in text:  # Python's own spelling of thousands
            return None
        if self.decimal == ",":
            if b"." in text:
                return None
            text = text.replace(b",", b".")
        try:
            return float(text)
        except ValueError:
            return None

    def other_separator(self, line: bytes) -> str:
        """A hint if a line seems to have another separator: its structure, no content."""
        if self.delimiter.encode() in line and self.delimiter != ",":
            return ""
        seen = [sign for sign in (";", "\t", "|") if sign.encode() in line]
        if len(seen) != 1 or seen[0] == self.delimiter:
            return ""
        option = "tab" if seen[0] == "\t" else f"'{seen[0]}'"
        if seen[0] == ";" and self.decimal == ".":  # both habits go together
            option += " (and --decimal ',' if numbers are written 0,5)"
        return (
            f"; this line has {_NAMES[seen[0]]}: if they separate fields, use --delimiter {option}"
        )

    def other_decimal(self, field: bytes) -> str:
        """A hint about a field that is not a number because of its decimal sign."""
        if self.decimal == "." and _BY_THREES.fullmatch(field):
            return (
                "; it has commas: if they mark thousands, write 1234.5; if one is a decimal comma, "
                "use --decimal ',' with --delimiter ';'"
            )
        if self.decimal == "." and _DECIMAL_COMMA.fullmatch(field):
            return "; it seems to have a decimal comma: use --decimal ','" + (
                " with --delimiter ';'" if self.delimiter == "," else ""
            )
        if _MARKED.fullmatch(field) and self.number(field) is None:
            plain = f"1234{self.decimal}5"
            return (
                "; it seems to have a currency sign or marks of thousands, a unit, a percent sign "
                f"or brackets: write {plain}, or -{plain} below 0"
            )
        return ""

    def line_of(self, names: set[str], lines: Sequence[bytes]) -> int | None:
        """The number of the line, after the first, that has all these fields. None: none has.

        Only where the first line is of another form: a title, a comment, Excel's `sep=;`, or a
        title as spreadsheets save it, with all other fields empty, in every line before the names.
        So the content of a row among rows never decides.
        """
        forms = [
            [field.strip().decode("utf-8", "replace") for field in self.fields(line)]
            for line in lines
        ]
        strange = lines[0].startswith((b"#", b"sep="))
        titles = len(forms[0]) > 1
        for number, form in enumerate(forms[1:], start=2):
            titles = titles and not any(forms[number - 2][1:])
            other_form = strange or titles or len(form) != len(forms[0])
            if names and names <= set(form) and other_form:
                return number
        return None

    def other_width(self, line: bytes) -> str:
        """A hint about a row with too many or too few fields: its structure, no content."""
        if line.count(b'"') % 2:
            return (
                "; it has a quote that is not closed: a field must end in its line, so remove line "
                "breaks inside quotes first"
            )
        return self.other_separator(line)


def is_utf8_line(line: bytes) -> bool:
    """Whether a line is valid text."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
