"""Import optional libraries on demand."""

from __future__ import annotations

import importlib
from typing import Any

from tidegate.errors import TidegateError


def require_library(module: str, purpose: str, extra: str = "tables") -> Any:
    """The imported module. `Any`, because not every library is fully typed.

    Raises:
        TidegateError: it is not installed; says what needs it and how to get it.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise TidegateError(
            f"{purpose} needs {package}. Run pip install '.[{extra}]' in the checkout of tidegate"
        ) from None


def require_library_for_files(module: str) -> Any:
    """The module of the `cli` extra that reads or writes this kind of file."""
    return require_library(module, "this file", "cli")
