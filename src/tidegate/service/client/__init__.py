"""The Python client of the service: the library's methods over HTTP. Needs no extra.

connect → Gate ─ Stream.push ─ HTTP ─ the service ║ Stream.query, table, rows, follow
"""

from __future__ import annotations

from tidegate.service.client.remote_gate import Gate, connect
from tidegate.service.client.remote_keyed import KeyedEventStream, KeyedStream
from tidegate.service.client.remote_stream import EventStream, Stream

__all__ = ["EventStream", "Gate", "KeyedEventStream", "KeyedStream", "Stream", "connect"]
