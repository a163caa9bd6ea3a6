"""Whatever comes in: it is read and says the same when it is written, or it is a TidegateError.

`TARGETS` are the parsers of the local model; each call makes one input and checks it.
"""

import atexit
import json
import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.json_mutations import NASTY, broken, mutated
from tests.local.devices import asked, coin, device
from tidegate.errors import TidegateError
from tidegate.local.announcements_and_reports import Announcement, Report
from tidegate.local.device_memory import Memory
from tidegate.local.questions import TailQuestion, WaveQuestion
from tidegate.local.server import Server
from tidegate.local.shuffle import Shuffled
from tidegate.local.topl import Topl

_TOPL = Topl(epsilon=2, bound=500, holdout=100, horizon=4096, report="stochastic-rounding")
_ANNOUNCED = [
    asked(question=question).plain()
    for question in (
        coin(),
        TailQuestion.at(20.5, Fraction(1), dither=1.0),
        WaveQuestion(top=100, bins=10, half=2, high=5 << 24, low=2 << 24),
    )
]
_REPORTED = Report(
    round="r1", phase="stream", epsilon=Fraction(1, 2), slot=0, client="5f", report=3
).plain()


def _message(plain: Any, chance: random.Random) -> str | bytes:
    text: str | bytes = mutated(plain, chance)
    if not chance.randrange(3):
        text = text.encode("utf-8", "surrogatepass")
    if isinstance(text, bytes) and not chance.randrange(3):
        text = broken(text, chance)
    return text


def announcement(chance: random.Random) -> None:
    """An announcement at a device: read, checked and perhaps answered."""
    text = _message(chance.choice(_ANNOUNCED), chance)
    try:
        read = Announcement.from_json(text)
    except TidegateError:
        return
    assert Announcement.from_json(read.json()) == read
    try:
        report = device(Memory.volatile()).answer(text, chance.randrange(101))
    except TidegateError:
        return
    assert (report.round, report.slot) == (read.round, read.slot)
    assert 0 <= report.report < read.question.reports


def report(chance: random.Random) -> None:
    """A report."""
    try:
        read = Report.from_json(_message(_REPORTED, chance))
    except TidegateError:
        return
    assert Report.from_json(read.json()) == read


@cache
def _server() -> Server:
    return _TOPL.server()


def batch(chance: random.Random) -> None:
    """Reports at a server: every one is counted, as accepted or by its reason."""
    server = _server()
    open_round = {**_REPORTED, "round": server.round, "phase": "threshold", "epsilon": "2"}
    plains = [{**open_round, "client": f"c{chance.randrange(10**6)}"} for _ in range(3)]
    given = [_message(plain, chance) for plain in plains]
    before = server.accepted + server.rejected.total()
    received = server.collect_many(given)
    assert received.accepted + received.rejected.total() == len(given)
    assert server.accepted + server.rejected.total() == before + len(given)
    assert len(received.rejected_at) == received.rejected.total()


def arrays(chance: random.Random) -> None:
    """Shuffled reports at a server."""
    server = _server()
    size = chance.choice((0, 1, 3, 50))
    columns = [_column(size, chance) for _ in range(2)]
    before = server.accepted
    try:
        shuffled = Shuffled(chance.choice((server.round, "other", "")), *columns)
        received = server.collect_shuffled(shuffled, chance.choice((1e-9, 0, "x", 2, "1/1000")))
    except TidegateError:
        assert server.accepted == before
        return
    assert received.accepted + received.rejected.total() == len(shuffled.slots)


def _column(size: int, chance: random.Random) -> Any:
    kind = chance.choice(("int64", "uint64", "uint8", "float64", "bool", "object", "int32"))
    numbers = np.array([chance.choice((0, 0, 0, 1, 1, 29, 255)) for _ in range(size)])
    column = numbers.astype(kind)
    if kind == "object" and size:
        column[0] = chance.choice(NASTY)
    if kind == "int64" and size and not chance.randrange(3):
        column[0] = chance.choice((-1, 2**62, -(2**63)))
    return chance.choice((column, column, column, column.reshape(1, -1), column[1:], list(column)))


@cache
def _folder() -> Path:
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # quick to flush
    folder = Path(tempfile.mkdtemp(dir=shared))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _memory() -> tuple[Path, dict[str, Any]]:
    path = _folder() / "device.json"
    with Memory.open(path) as memory:
        for name in ("r1", "r2", "r3"):
            device(memory).answer(asked(name), 7, event=name)
    return path, json.loads(path.read_bytes())


def memory(chance: random.Random) -> None:
    """The file of a device's memory, written over in place: it keeps its inode."""
    path, plain = _memory()
    path.write_text(mutated(plain, chance), encoding="utf-8", errors="surrogatepass")
    if not chance.randrange(3):
        path.write_bytes(broken(path.read_bytes(), chance))
    try:
        with Memory.open(path) as opened:
            pins, spent = opened.pins, opened.spent
    except TidegateError:
        return
    assert [pin.plain() for pin in pins] == json.loads(path.read_bytes())["pins"]
    assert spent == sum(pin.epsilon for pin in pins)


@cache
def _collected() -> bytes:
    """A server's file in the middle of the stream, with a state and a journal."""
    path = _folder() / "collected.db"
    with _TOPL.server(path) as server:
        for index in range(130):
            client = _TOPL.client(Memory.volatile())
            server.collect(client.answer(server.announcement(), index % 60))
        server.collect_many([server.announcement().json()])
    return path.read_bytes()


def store(chance: random.Random) -> None:
    """The file of a server with one thing changed: it is opened and goes on, or refuses."""
    path = _folder() / "state.db"
    for name in (path, path.with_name("state.db-wal"), path.with_name("state.db-shm")):
        name.unlink(missing_ok=True)
    path.write_bytes(_collected())
    if chance.randrange(4):
        _change_row(path, chance)
    else:
        path.write_bytes(broken(path.read_bytes(), chance))
    try:
        with _TOPL.server(path) as server:
            client = _TOPL.client(Memory.volatile())
            server.collect(client.answer(server.announcement().json(), 7))
            count = server.collection.collected.count
            server.query(0, count)
            accepted, name = server.accepted, server.round
        if chance.randrange(3):  # opening is slow: not every time
            return
        with _TOPL.server(path) as again:
            assert (again.accepted, again.round) == (accepted, name)
            assert again.collection.collected.count == count
    except TidegateError:
        return


def _change_row(path: Path, chance: random.Random) -> None:
    database = sqlite3.connect(path)
    try:
        rows = dict(database.execute("SELECT name, value FROM facts"))
        name = chance.choice([*rows, "state", "state", "state", "state"])
        table = chance.randrange(5)
        if table == 0:
            column = chance.choice(("count", "slots", "reports"))
            value = chance.choice((0, -1, 10**12, b"", b"\0", b"\xff" * 9, "x", 1.5, 2))
            database.execute(f"UPDATE journal SET {column} = ?", (value,))  # ours
        elif table == 1:
            value = chance.choice((0, -1, "x", b"x", 1.5, 2**62))
            database.execute("INSERT INTO rejected VALUES (?, ?)", (f"r{value!r}", value))
        elif name == "generation":
            value = chance.choice((None, "x", 1.5, b"", -1, 2**62))
            database.execute("UPDATE facts SET value = ? WHERE name = ?", (value or "", name))
        else:
            text = mutated(json.loads(rows[name]), chance).encode("utf-8", "surrogatepass")
            database.execute(
                "UPDATE facts SET value = CAST(? AS TEXT) WHERE name = ?", (text, name)
            )
        database.commit()
    except sqlite3.Error:
        pass  # a row that the schema does not allow
    finally:
        database.close()


TARGETS: dict[str, Callable[[random.Random], None]] = {
    "local announcement": announcement,
    "local report": report,
    "local batch": batch,
    "local arrays": arrays,
    "local memory": memory,
    "local store": store,
}
