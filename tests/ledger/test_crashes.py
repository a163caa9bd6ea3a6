"""Power cuts, kills, full disks: whatever was released is charged, and the ledger opens again."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.depth import depth
from tidegate.guarantee import Guarantee
from tidegate.ledger import Ledger, LedgerError, Note

Anchor = tuple[int, str]
HERE = {"source": "a", "epoch": "5f", "stage": "stream", "start": 0}


@pytest.mark.usefixtures("quick_disk")
def test_a_torn_line_at_every_byte(path: Path, filled: Anchor, key: bytes | None) -> None:
    count, _ = filled
    whole = path.read_bytes()
    start = whole[:-1].rindex(b"\n") + 1
    for zeros in (b"", bytes(7)):  # some file systems leave zeros
        for place in range(start + (not zeros), len(whole) - 1, depth(3, 1)):
            torn = whole[:place] + zeros
            path.write_bytes(torn)
            with Ledger.open(path, key=key, read_only=True) as ledger:
                assert (ledger.count, ledger.torn) == (count - 1, len(torn) - start)
                assert f"last {ledger.torn} bytes are an unfinished entry" in ledger.table()
            assert path.read_bytes() == torn
            with Ledger.open(path, key=key) as ledger:
                assert (ledger.count, ledger.torn) == (count, 0)
                note = ledger.entries[-1]
                assert isinstance(note, Note)
                assert note.note.startswith("recovered torn line: ")
            with Ledger.open(path, key=key) as ledger:
                assert ledger.count == count  # recovered once


def test_an_entry_that_lacks_only_its_newline_counts(
    path: Path, filled: Anchor, key: bytes | None
) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    for _ in range(2):
        with Ledger.open(path, key=key, expected=filled, read_only=True) as ledger:
            assert len(ledger.charges("b")) == 1
    with Ledger.open(path, key=key, expected=filled) as ledger:
        assert ledger.entries[-1].note == (
            "recovered torn line: it was whole but for its newline, and counts"
        )
    assert path.read_bytes().startswith(whole)
    with Ledger.open(path, key=key, expected=filled) as ledger:
        assert ledger.count == filled[0] + 1


@pytest.mark.usefixtures("quick_disk")
def test_a_torn_first_line_is_begun_again(path: Path, tenth: Guarantee) -> None:
    Ledger.open(path).close()
    first = path.read_bytes()
    for place in range(1, len(first) - 1):
        path.write_bytes(first[:place])
        with pytest.raises(LedgerError, match="it holds no entry yet"):
            Ledger.open(path, create=False)
        with Ledger.open(path) as ledger:
            assert ledger.count == 2  # the opening, and the note
            assert ledger.total().epsilon == 0


def test_the_charge_is_on_the_disk_before_it_returns(
    path: Path, tenth: Guarantee, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    write, fsync = os.write, os.fsync

    def noted_fsync(descriptor: int) -> None:
        fsync(descriptor)
        done.append("directory" if Path(f"/dev/fd/{descriptor}").is_dir() else "file")

    def noted_write(descriptor: int, data: bytes) -> int:
        done.append("write")
        return write(descriptor, data)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "write", noted_write)
    with Ledger.open(path) as ledger:
        # What a killed predecessor left is made durable before it is believed.
        assert done == ["file", "directory", "write", "file"]
        done.clear()
        ledger.charge(**HERE, guarantee=tenth)
        assert done == ["write", "file"]


@pytest.mark.parametrize("moment", ["write", "half a write", "fsync"])
def test_a_failing_disk_charges_nothing(
    path: Path, tenth: Guarantee, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    write = os.write

    def failing(descriptor: int, data: bytes = b"") -> int:
        if moment == "half a write" and len(data) > 50:
            return write(descriptor, data[: len(data) - 50])
        raise OSError(errno.ENOSPC, "No space left on device")

    with Ledger.open(path) as ledger:
        ledger.charge(**HERE, guarantee=tenth)
        before = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync" if moment == "fsync" else "write", failing)
            with pytest.raises(LedgerError, match=r"nothing was charged.*No space left on device"):
                ledger.charge(**HERE, guarantee=tenth)
        assert path.read_bytes() == before
        assert ledger.total() == tenth
        with pytest.raises(LedgerError, match="it is closed"):  # who knows what the disk holds
            ledger.charge(**HERE, guarantee=tenth)
    with Ledger.open(path) as ledger:
        assert ledger.total() == tenth


def test_short_writes_are_finished(
    path: Path, tenth: Guarantee, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    with Ledger.open(path) as ledger:
        monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:7]))
        ledger.charge(**HERE, guarantee=tenth)
        monkeypatch.undo()
        head = ledger.head
    with Ledger.open(path) as ledger:
        assert ledger.head == head


def test_an_interrupted_charge_ends_the_session(
    path: Path, tenth: Guarantee, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def interrupted(descriptor: int) -> None:
        fsync(descriptor)
        raise KeyboardInterrupt

    with Ledger.open(path) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", interrupted)
            with pytest.raises(KeyboardInterrupt):
                ledger.charge(**HERE, guarantee=tenth)
        with pytest.raises(LedgerError, match="it is closed"):
            ledger.charge(**HERE, guarantee=tenth)
    Ledger.open(path).close()


# One process for all moments: it forks a child for each, and the child dies at its moment.
KILLED = """
import os, sys
from fractions import Fraction
from pathlib import Path
from tidegate.guarantee import Guarantee
from tidegate.ledger import Ledger

folder, calls = Path(sys.argv[1]), 22
write, fsync, truncate = os.write, os.fsync, os.ftruncate

def dying(moment, share):
    left = moment
    def call(real, descriptor, *data):
        nonlocal left
        left -= 1
        if left < 0:
            if data and real is write:
                real(descriptor, data[0][: int(len(data[0]) * share)])
            elif share == 1:
                real(descriptor, *data)
            os._exit(9)
        return real(descriptor, *data)
    os.write = lambda *given: call(write, *given)
    os.fsync = lambda *given: call(fsync, *given)
    os.ftruncate = lambda *given: call(truncate, *given)

for moment in range(calls):
    for share in (0, 0.5, 0.999, 1):
        place = folder / f"{moment}-{share}"
        place.mkdir()
        for session in range(2):  # the second one dies too, while it mends what the first left
            if os.fork() == 0:
                dying(moment if session == 0 else moment % 7, share)
                with Ledger.open(place / "ledger", cap=1) as ledger:
                    for number in range(4):
                        guarantee = Guarantee(epsilon=Fraction(1, 10))
                        ledger.charge(source="a", epoch=f"{session}", stage=f"{number}",
                                      start=0, guarantee=guarantee)
                        with (place / "released").open("a") as released:
                            released.write(f"{session}{number}\\n")
                os._exit(0)
            os.wait()
"""


def test_killed_at_any_moment(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=True)
    died_early = 0
    places = sorted(tmp_path.iterdir())
    assert len(places) == 22 * 4
    for place in places:
        notes = place / "released"
        released = notes.read_text().split() if notes.exists() else []
        with Ledger.open(place / "ledger") as ledger:
            charged = [charge.epoch + charge.stage for charge in ledger.charges()]
        died_early += len(released) < 8
        assert set(released) <= set(charged)  # everything that went out was charged
        assert len(charged) - len(released) <= 2  # at most one charge a kill for nothing
        assert charged == sorted(set(charged))
    assert died_early > len(places) / 2
