"""SQL statements about the devices of a group, in the driver's own form.

Built once: SQLAlchemy would take longer to prepare the names of the devices than the database takes
to find them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from itertools import islice
from typing import Any

from sqlalchemy import Connection, insert

from tidegate.service.devices.device_tables import devices

_CHUNK = 512  # devices in a statement
_FIND = "SELECT device, slot, reported FROM {table} WHERE {here}"
_MARK = "UPDATE {table} SET reported = 1 WHERE {here}"
ADD = insert(devices)


def found_devices(
    connection: Connection, task: int, number: int, names: Collection[bytes]
) -> Iterator[tuple[bytes, int, bool]]:
    """Those of these devices that were asked in a round: slot, and whether they have reported."""
    for some in _chunks_of_devices(names):
        for device, slot, reported in _run_device_statement(
            connection, _FIND, task, number, some
        ).all():
            yield bytes(device), slot, bool(reported)


def mark_devices_reported(
    connection: Connection, task: int, number: int, names: Collection[bytes]
) -> None:
    """Note that these devices have reported."""
    for some in _chunks_of_devices(names):
        _run_device_statement(connection, _MARK, task, number, some)


def _run_device_statement(
    connection: Connection, words: str, task: int, number: int, names: list[bytes]
) -> Any:
    statement = _statement(words, len(names), connection.dialect.paramstyle)
    return connection.exec_driver_sql(statement, (task, number, *names))


def _chunks_of_devices(names: Collection[bytes]) -> Iterator[list[bytes]]:
    """Chunks padded to powers of 2 by repetition, so that few statements are prepared."""
    rest = iter(names)
    while some := list(islice(rest, _CHUNK)):
        yield some + some[:1] * ((1 << (len(some) - 1).bit_length()) - len(some))


@cache
def _statement(words: str, count: int, style: str) -> str:
    mark = "?" if style == "qmark" else "%s"
    among = ", ".join([mark] * count)
    here = f"task = {mark} AND number = {mark} AND device IN ({among})"
    return words.format(table=devices.name, here=here)
