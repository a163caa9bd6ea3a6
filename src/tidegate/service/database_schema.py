"""The tables of the service's database, and their migrations."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    insert,
    select,
    text,
)

from tidegate.errors import RefusedError

VERSION = 4
_NAME = 200  # characters of a name

tables = MetaData()

meta = Table(
    "tidegate_meta",
    tables,
    Column("name", String(40), primary_key=True),
    Column("value", Text, nullable=False),
)
streams = Table(
    "tidegate_streams",
    tables,
    Column("name", String(_NAME), primary_key=True),
    Column("settings", Text, nullable=False),
    Column("source", String(_NAME), nullable=False),
    Column("created", String(40), nullable=False),
    Column("retired", String(40)),
    Column("part", String(_NAME)),  # of the source; NULL: streams of the source add up
    Column("row_of", String(_NAME)),  # the rows whose column this is; NULL: it is alone
    Column("grace", BigInteger),  # seconds; NULL: ticks of events are not closed by the clock
    Column("keys", Text),  # JSON: how a stream with keys treats them; NULL: it has none
)


def _schema_of_stream(name: str, *columns: Column[Any]) -> Table:
    stream = Column("stream", String(_NAME), primary_key=True)
    return Table(f"tidegate_{name}", tables, stream, *columns)


def _numbered_schema(name: str) -> Table:
    """A table of byte rows, numbered from 1 for each stream."""
    number: Column[Any] = Column("number", BigInteger, primary_key=True)
    return _schema_of_stream(name, number, Column("body", LargeBinary, nullable=False))


facts = _schema_of_stream(
    "facts",
    Column("name", String(60), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
states = _schema_of_stream("states", Column("body", LargeBinary, nullable=False))
journal = _numbered_schema("journal")
users = _numbered_schema("users")
inputs = _numbered_schema("inputs")
pages = _numbered_schema("pages")  # of a stream with keys: the states of some keys each
names = _numbered_schema("names")  # its keys, in the order of their codes
phases = _schema_of_stream(
    "phases",
    Column("start", BigInteger, primary_key=True),
    Column("threshold", Float(53), nullable=False),
    Column("epoch", String(64), nullable=False),
    Column("floor", Float(53), nullable=False),
)
# What was released, as readers get it: the journal has it too, in the form that queries need.
released = _schema_of_stream(
    "released",
    Column("first", BigInteger, primary_key=True),
    Column("end", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("time_first", BigInteger),
    Column("time_last", BigInteger),
)
requests = _schema_of_stream(
    "requests",
    Column("key", String(_NAME), primary_key=True),
    Column("digest", LargeBinary, nullable=False),
    Column("start", BigInteger, nullable=False),
    Column("count", BigInteger, nullable=False),
)
ledger = Table(
    "tidegate_ledger",
    tables,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("line", LargeBinary, nullable=False),
)
tokens = Table(
    "tidegate_tokens",
    tables,
    Column("digest", String(64), primary_key=True),
    Column("role", String(20), nullable=False),
    Column("label", String(_NAME), nullable=False),
    Column("created", String(40), nullable=False),
)


def _schema_with_keys_and_parts(connection: Connection) -> None:
    """Migrate to version 2."""
    tables.create_all(connection)
    _add_schema_columns(connection, streams, "part", "keys")
    _add_schema_columns(connection, released, "time_first", "time_last")


def _schema_with_grace(connection: Connection) -> None:
    """Migrate to version 3."""
    _add_schema_columns(connection, streams, "grace")


def _schema_row(connection: Connection) -> None:
    """Migrate to version 4."""
    _add_schema_columns(connection, streams, "row_of")


def _add_schema_columns(connection: Connection, table: Table, *names: str) -> None:
    for name in names:
        kind = table.c[name].type.compile(connection.dialect)
        connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {name} {kind}"))


# One function for each step from a version to the next: MIGRATIONS[n] leads from n to n + 1.
MIGRATIONS = {1: _schema_with_keys_and_parts, 2: _schema_with_grace, 3: _schema_row}


class SchemaError(RefusedError):
    """A newer Tidegate wrote the database."""


def migrate_schema(connection: Connection) -> None:
    """Migrate the tables to the present version, in the open transaction."""
    meta.create(connection, checkfirst=True)
    found = connection.execute(select(meta.c.value).where(meta.c.name == "version")).scalar()
    version = int(found or 0)
    if version > VERSION:
        raise SchemaError(
            f"the database has schema {version}, this Tidegate knows {VERSION}: use the newer one"
        )
    if found is None:
        tables.create_all(connection)
        connection.execute(insert(meta).values(name="version", value=str(VERSION)))
    elif version < VERSION:
        for step in range(version, VERSION):
            MIGRATIONS[step](connection)
        connection.execute(meta.update().where(meta.c.name == "version").values(value=str(VERSION)))
