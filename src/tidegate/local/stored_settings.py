"""The settings that the collection in a file was made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidegate.local.store import ServerStateError, Store


def stored_settings(path: Path) -> dict[str, Any]:
    """What the collection in this file was made from."""
    store = Store(path, create=False)
    try:
        settings = store.plain("settings")
    finally:
        store.close()
    if not isinstance(settings, dict):
        raise ServerStateError(f"{path} was created, but no collection was begun in it: remove it")
    return settings
