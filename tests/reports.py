"""What workers of xdist tell: what happened, not that a short set-up or clean-up went well.

These are two of the three reports of every test, and the process that gathers them has no core to
itself. What fails, is skipped, prints or takes a while is told as ever.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

SHORT = 0.005  # seconds: `--durations` would not show it


def pytest_configure(config: Any) -> None:
    """A worker has a plugin that sends events; where there is none, nothing is left out."""
    for plugin in config.pluginmanager.get_plugins():
        if hasattr(plugin, "sendevent"):
            plugin.sendevent = partial(send_remarkable, plugin.sendevent)


def send_remarkable(send: Callable[..., None], name: str, **contents: Any) -> None:
    """Send an event, unless it is the report of something short that went well around a test."""
    report = contents.get("data") if name == "testreport" else None
    if not report or report["when"] == "call" or _remarkable(report):
        send(name, **contents)


def _remarkable(report: dict[str, Any]) -> bool:
    said = report["sections"] or report["user_properties"]
    return bool(said or report["outcome"] != "passed" or report["duration"] > SHORT)
