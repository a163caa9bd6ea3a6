"""The errors users meet. None ever carries a value of the stream, a partial sum or noise.

Nor is any of them long: what a message shows of a setting is shortened where it is put in
(`exact_numbers.said`), and the message as a whole here.
"""

from __future__ import annotations

LONGEST = 600
"""Characters of a message. Ours have less than 400 before a path or a list of names is put in."""
NAME = 120
"""Characters of a name in a message: of a setting, which a stored file can make up, or a source."""


def shortened(text: str, most: int = LONGEST) -> str:
    """The text, or its beginning and its end: what happened, and what to do.

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
        """What to say; a class with something of its own to say has its own."""
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
    """An input is not a number. Says where, never what."""


class MissingError(TidegateError):
    """Something that was named is not there: a file, a folder, a state."""


class RefusedError(TidegateError):
    """Something was refused to protect privacy: a budget, or noise that must not be used again."""


class SnapshotError(RefusedError, ValueError):
    """A snapshot or record cannot be used: tampered with, sealed, or of another pipeline."""


class QueryError(TidegateError, ValueError):
    """A range cannot be answered: reversed, not released yet, or older than the record."""
