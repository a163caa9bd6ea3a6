"""The errors users meet. None ever carries a value of the stream, a partial sum or noise."""

from __future__ import annotations


class TidegateError(Exception):
    """Base of every error that Tidegate raises on purpose."""


class SettingError(TidegateError, ValueError):
    """A setting is wrong. Settings are public, so the message may show them."""

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(setting, problem)  # both, so that it survives a trip between processes
        self.setting = setting
        self.problem = problem

    def __str__(self) -> str:
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
