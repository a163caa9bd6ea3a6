"""Local collection over HTTP: devices ask and report, the service adds up.

    devices → device_routes → desk ─ all that waits ─ one transaction of the gate ║ answers

It is a skin over `tidegate.local.task`: what is asked and how it is added up is decided there. Here
is kept who was asked what (a digest of a name for every device of the rounds that still take
reports), in the same database as the streams. No address and no body is kept or logged.
"""

from __future__ import annotations

from fastapi import FastAPI

from tidegate.service.access import Access
from tidegate.service.devices.desk import Desk
from tidegate.service.devices.device_routes import DeviceCORS, device_routes
from tidegate.service.devices.task_routes import task_routes
from tidegate.service.gate import Gate


def install(app: FastAPI, gate: Gate, access: Access) -> Desk:
    """Add the routes of tasks and devices."""
    app.state.desk = desk = Desk(gate)
    app.include_router(device_routes(desk, access))
    app.include_router(task_routes(desk, access))
    app.add_middleware(DeviceCORS)
    return desk
