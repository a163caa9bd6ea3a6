"""Local collection over HTTP: devices get questions and report, the service adds up.

    devices → device_routes → queue ─ all that waits ─ one transaction of the gate ║ answers

It is a skin over `tidegate.local.task`: what is asked and how it is added up is decided there. Here
is kept who was asked what (a digest of a name for every device of the rounds that still take
reports), in the same database as the streams. No address and no body is kept or logged.
"""

from __future__ import annotations

from fastapi import FastAPI

from tidegate.service.access import Access
from tidegate.service.devices.device_queue import DeviceQueue
from tidegate.service.devices.device_routes import device_routes
from tidegate.service.devices.task_routes import task_routes

__all__ = ["install"]


def install(app: FastAPI, queue: DeviceQueue, access: Access) -> None:
    """Add the routes of tasks and devices."""
    app.state.device_queue = queue
    app.include_router(device_routes(queue, access))
    app.include_router(task_routes(queue, access))
