"""Errors of files: which file and why, never its content."""

from __future__ import annotations

import errno
import os

from tidegate.errors import TidegateError


class SourceError(TidegateError, OSError):
    """An input cannot be read: missing, forbidden, truncated or damaged. `filename` names it."""

    def _message(self) -> str:
        return f"{self.filename}: {self.strerror}"


class SinkError(TidegateError, OSError):
    """An output cannot be written: full disk, forbidden, or not a file that we wrote."""

    def _message(self) -> str:
        return f"{self.filename}: {self.strerror}"


class ClosedPipeError(SinkError):
    """The reader of our output closed the pipe: normal in a shell (`| head`)."""


def source_error(error: OSError, name: str) -> SourceError:
    """The operating system's reason, without text that a library may have added."""
    return SourceError(error.errno, _error_reason(error), name)


def sink_error(error: OSError, name: str) -> SinkError:
    """The error of an output; a closed pipe has its own class."""
    if error.errno == errno.EPIPE:
        return ClosedPipeError(error.errno, "the reader of the output closed the pipe", name)
    return SinkError(error.errno, _error_reason(error), name)


def _error_reason(error: OSError) -> str:
    if error.errno is None:  # raised by a library: its text may quote the data
        return "cannot be read or written"
    if error.errno == errno.ENOSPC:
        return "no space left: the disk is full"
    text = os.strerror(error.errno)
    return text[:1].lower() + text[1:]
