"""Statements about the devices of a group: built once, since building costs more than running."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, Select, Update, bindparam, insert, select, update

from tidegate.service.devices.device_tables import devices

_CHUNK = 512  # devices in a statement
_AT = devices.c.task == bindparam("of_task"), devices.c.number == bindparam("of_number")
ADD = insert(devices)


def chunks(names: Iterable[bytes]) -> Iterator[list[bytes]]:
    """As many at once as a power of 2, some of them twice: few statements serve all numbers."""
    rest = iter(names)
    while some := list(islice(rest, _CHUNK)):
        yield some + some[:1] * ((1 << (len(some) - 1).bit_length()) - len(some))


@cache
def find(count: int) -> Select[Any]:
    """Finds this many devices. With a list of any length it would be compiled at every use."""
    return select(devices.c.device, devices.c.slot, devices.c.reported).where(*_among(count))


@cache
def mark(count: int) -> Update:
    """Notes that this many devices have reported."""
    return update(devices).where(*_among(count)).values(reported=1)


def _among(count: int) -> tuple[ColumnElement[bool], ...]:
    return *_AT, devices.c.device.in_([bindparam(f"device_{at}") for at in range(count)])


def named(names: Sequence[bytes]) -> dict[str, bytes]:
    """Names as parameters of `find` and `mark`."""
    return {f"device_{at}": name for at, name in enumerate(names)}
