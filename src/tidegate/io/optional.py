"""Libraries of the `cli` extra, imported only when a file needs them."""

from __future__ import annotations

import importlib
from typing import Any

from tidegate.errors import TidegateError


def require(module: str) -> Any:
    """The module. `Any`, because neither pyarrow nor zstandard is fully typed.

    Raises:
        TidegateError: if it is not installed; it says how to get it.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise TidegateError(
            f"this file needs {package}: install it with pip install 'tidegate[cli]'"
        ) from None
