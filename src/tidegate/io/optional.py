"""Libraries of the `cli` extra, imported only when a file needs them."""

from __future__ import annotations

from typing import Any

from tidegate.tables import libraries


def require(module: str) -> Any:
    """The module; an error if it is not installed."""
    return libraries.require(module, "this file", "cli")
