"""Pages of other sites may report: the device's routes answer to any origin.

Nothing is opened by that: no cookie is read, and a report needs a token.
"""

from __future__ import annotations

import re

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

_DEVICE = re.compile(r"/v1/tasks/[^/]+/(round|announcement|reports)")


class DeviceCORS:
    """Adds the headers to the routes of devices alone, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open = CORSMiddleware(
            app,
            allow_origins=["*"],
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "If-None-Match"],
            expose_headers=["ETag", "Retry-After"],
            max_age=86_400,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        device = scope["type"] == "http" and _DEVICE.fullmatch(scope["path"])
        await (self._open if device else self._app)(scope, receive, send)
