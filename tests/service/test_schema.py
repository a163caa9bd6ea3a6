"""Databases of earlier versions are brought up to date when they are opened."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import tidegate as tg
from tests.service.conftest import Place, sender
from tidegate.service import database_schema

ADDED = {  # columns by the version that brought them
    2: {"tidegate_streams": ("part", "keys"), "tidegate_released": ("time_first", "time_last")},
    3: {"tidegate_streams": ("grace",)},
    4: {"tidegate_streams": ("row_of",)},
}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_earlier_database_is_migrated_and_goes_on(tmp_path: Path, version: int) -> None:
    place = Place(tmp_path / "gate", None)
    service = place.opened()
    make = service.gate.streams.create
    pipeline = tg.adaptive(epsilon=1, bound=20)
    service.gate.call(lambda: make("meters", pipeline)).result()
    sender(service, "meters")(1.0, 2.0)
    service.gate.close()
    with sqlite3.connect(place.folder / "service.sqlite") as connection:
        for later in range(version + 1, database_schema.VERSION + 1):
            for table, columns in ADDED[later].items():
                for column in columns:
                    connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        connection.execute(
            "UPDATE tidegate_meta SET value = ? WHERE name = 'version'", (str(version),)
        )
    connection.close()
    service = place.opened()
    assert sender(service, "meters")(3.0).start == 2
    assert service.gate.streams.closed_by_clock() == []
    service.gate.close()


def test_every_step_has_a_migration() -> None:
    assert set(database_schema.MIGRATIONS) == set(range(1, database_schema.VERSION))
