"""The errors users see. None ever carries a value of the stream, a partial sum or noise.

Nor is any of them long: what a message shows of a setting is shortened where it is put in
(`exact_numbers.said`), and the message as a whole here.
"""

from __future__ import annotations

LONGEST = 600
"""Characters of a message. Ours have less than 400 before a path or a list of names is put in."""
NAME = 120
"""Characters of a name in a message: of a setting, which a stored file can make up, or a source."""


def shortened(text: str, most: int = LONGEST) -> str:
    """The text, shortened in the middle if it is long: its beginning and end say the most.

    >>> shortened("x" * 9 + "y", most=5)
    'x … y'
    """
    if len(text) <= most:
        return text
    end = most // 3
    return f"{text[: most - end - 3]} … {text[-end:]}"


class TidegateError(Exception):
    """Base of every error that Tidegate raises on purpose."""

    def __str__(self) -> str:
        return shortened(self._message())

    def _message(self) -> str:
        """The message; subclasses that build their own override this."""
        return super().__str__()


class SettingError(TidegateError, ValueError):
    """A setting is wrong. Settings are public, so the message may show them."""

    def __init__(self, setting: str, problem: str) -> None:
        setting, problem = shortened(setting, NAME), shortened(problem)
        super().__init__(setting, problem)  # both, so that it survives a trip between processes
        self.setting = setting
        self.problem = problem

    def _message(self) -> str:
        return f"{self.setting}: {self.problem}"


class InputError(TidegateError, ValueError):
    """An input is not a number. The message says where, never what."""


class MissingError(TidegateError):
    """A named file, folder or state does not exist."""


class RefusedError(TidegateError):
    """Refused to protect privacy: a budget, or noise that must not be used again."""


class SnapshotError(RefusedError, ValueError):
    """A snapshot or record cannot be used: altered, sealed, or from another pipeline."""


class QueryError(TidegateError, ValueError):
    """A range cannot be answered: reversed, not released yet, or older than the record."""
