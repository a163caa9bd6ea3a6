"""The tables of the service's database."""

from __future__ import annotations

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
)

from tidegate.errors import RefusedError

VERSION = 1
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
)
facts = Table(
    "tidegate_facts",
    tables,
    Column("stream", String(_NAME), primary_key=True),
    Column("name", String(60), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
states = Table(
    "tidegate_states",
    tables,
    Column("stream", String(_NAME), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
journal = Table(
    "tidegate_journal",
    tables,
    Column("stream", String(_NAME), primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
users = Table(
    "tidegate_users",
    tables,
    Column("stream", String(_NAME), primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
inputs = Table(
    "tidegate_inputs",
    tables,
    Column("stream", String(_NAME), primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
phases = Table(
    "tidegate_phases",
    tables,
    Column("stream", String(_NAME), primary_key=True),
    Column("start", BigInteger, primary_key=True),
    Column("threshold", Float(53), nullable=False),
    Column("epoch", String(64), nullable=False),
    Column("floor", Float(53), nullable=False),
)
# What was released, as readers get it: the journal has it too, in the form that queries need.
released = Table(
    "tidegate_released",
    tables,
    Column("stream", String(_NAME), primary_key=True),
    Column("first", BigInteger, primary_key=True),
    Column("end", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
requests = Table(
    "tidegate_requests",
    tables,
    Column("stream", String(_NAME), primary_key=True),
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

# One function for each step from a version to the next: MIGRATIONS[n] leads from n to n + 1.
MIGRATIONS = {0: tables.create_all}


class SchemaError(RefusedError):
    """The database was written by a newer Tidegate."""


def migrate(connection: Connection) -> None:
    """Bring the tables up to date, in the open transaction."""
    meta.create(connection, checkfirst=True)
    found = connection.execute(select(meta.c.value).where(meta.c.name == "version")).scalar()
    version = int(found or 0)
    if version > VERSION:
        raise SchemaError(
            f"the database has schema {version}, this Tidegate knows {VERSION}: use the newer one"
        )
    for step in range(version, VERSION):
        MIGRATIONS[step](connection)
    if found is None:
        connection.execute(insert(meta).values(name="version", value=str(VERSION)))
    elif version < VERSION:
        connection.execute(meta.update().where(meta.c.name == "version").values(value=str(VERSION)))
