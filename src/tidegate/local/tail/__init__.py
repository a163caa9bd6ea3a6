"""The default way to a threshold: where the tail lies, how it falls, what to do about it."""

from __future__ import annotations
