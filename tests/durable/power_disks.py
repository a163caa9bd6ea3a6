"""Power cuts, the second half: every disk that a cut may leave of a recorded run.

At every moment before a sync, what was synced is on the disk, and of all else any part may be, in
any selection: each write, each new name, rename and removal by itself (a name is safe once its
folder was synced). That is less than file systems promise, and all that POSIX does. Up to `UNITS`
changes all 2^n selections are played. Where more are pending, the two writes of a frame of SQLite's
log count as one (half a frame is none: its checksum is wrong), which leaves few enough in all
recorded runs; if it did not, beginnings, losses of one, single ones and `DRAWN` others are played
(by hand, where `UNITS` are fewer, that is so).
Besides, every write is torn: after a beginning, alone, and with all others.

What is different is looked at once, with all that had left by then: nothing that has left may be
unknown, so the latest moment asks the most. `make test` counts as equal what SQLite reads alike
(`view`): half-copied pages of which the log has a newer copy, and frames after the last whole
commit; and what an unfinished file (`.partial`) holds, for it is removed unread. `make power-cuts`
counts bytes.
"""

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.depth import depth
from tests.durable.power import Step
from tests.durable.sqlite_view import FRAME_HEADER, read_alike

EVERY_BYTE = bool(os.environ.get("TIDEGATE_POWER_CUTS"))
UNITS = 12 if EVERY_BYTE else depth(4, 10)
DRAWN = 4000 if EVERY_BYTE else depth(20, 200)

Change = tuple[Step, int]  # a step, and the number of the file that it concerns


@dataclass
class Disk:
    """Files by name and number; `after` gives another disk, which shares what did not change."""

    names: dict[str, int] = field(default_factory=dict)
    contents: dict[int, bytes] = field(default_factory=dict)
    folders: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, root: Path) -> "Disk":
        disk = cls()
        for number, path in enumerate(sorted(root.rglob("*"))):
            disk.names[str(path)] = number
            if path.is_dir():
                disk.folders.add(number)
            else:
                disk.contents[number] = path.read_bytes()
        return disk

    def after(self, changes: list[Change]) -> "Disk":
        """What is on the disk after these steps as well."""
        names, contents, folders = dict(self.names), dict(self.contents), set(self.folders)
        touched: dict[int, bytearray] = {}
        for step, number in changes:
            if step.kind in ("create", "rename"):
                if step.kind == "rename":
                    names.pop(step.data, None)
                elif step.data == "folder":
                    folders.add(number)
                names[step.path] = number
            elif step.kind == "remove":
                names.pop(step.path, None)
            else:
                if number not in touched:
                    touched[number] = bytearray(contents.get(number, b""))
                content = touched[number]
                size = step.data if step.kind == "truncate" else step.offset + len(step.data)
                content.extend(bytes(max(0, size - len(content))))
                if step.kind == "truncate":
                    del content[size:]
                else:
                    content[step.offset : size] = step.data
        contents.update((number, bytes(content)) for number, content in touched.items())
        return Disk(names, contents, folders)

    def files(self) -> dict[str, bytes | None]:
        """What each name holds; None: a folder."""
        return {
            name: None if number in self.folders else self.contents.get(number, b"")
            for name, number in self.names.items()
        }

    def write(self, old: Path, new: Path) -> None:
        """Put it into a folder."""
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        for name, content in sorted(self.files().items()):
            path = new / Path(name).relative_to(old)
            if not path.parent.is_dir() or name.endswith("-shm"):
                continue  # its folder is not on the disk
            if content is None:
                path.mkdir(mode=0o700, exist_ok=True)
            else:
                path.write_bytes(content)
                path.chmod(0o600)


def cuts(root: Path, steps: list[Step]) -> Iterator[tuple[Disk, list[bytes]]]:
    """Every disk that a power cut may leave, and what had left the process by then."""
    disk = Disk.of(root)
    live = dict(disk.names)  # as the process sees it
    sizes = {number: len(content) for number, content in disk.contents.items()}
    made = len(live)
    pending: list[Change] = []
    left: list[bytes] = []
    for step in [*steps, Step("sync", "")]:
        number = live.get(step.path, -1)
        if step.kind == "left":
            left.append(step.data)
        elif step.kind == "sync":
            for chosen in selections(pending):
                yield disk.after(chosen), list(left)
            done = [one for one in pending if _synced(one, step.path, number)]
            disk = disk.after(done)
            pending = [one for one in pending if one not in done]
        else:
            if step.kind == "create":
                number = live[step.path] = made
                made += 1
            elif step.kind == "rename":
                number = live[step.path] = live.pop(step.data)
            elif step.kind == "remove":
                number = live.pop(step.path, -1)
            place = sizes.get(number, 0) if step.kind == "append" else step.offset
            kind = "write" if step.kind == "append" else step.kind
            if kind == "write":
                sizes[number] = max(sizes.get(number, 0), place + len(step.data))
            if kind == "truncate":
                sizes[number] = step.data
            pending.append((Step(kind, step.path, step.data, place), number))


def _synced(change: Change, path: str, number: int) -> bool:
    """A file's sync saves what was written to it, a folder's the names in it."""
    step = change[0]
    if step.kind in ("write", "truncate"):
        return change[1] == number
    return str(Path(step.path).parent) == path


def selections(pending: list[Change]) -> Iterator[list[Change]]:
    """Of what is not yet safe, any part may be on the disk."""
    units = [[one] for one in pending]
    if len(units) > UNITS:
        units = _frames(units)
    if len(units) <= UNITS:
        for chosen in range(1 << len(units)):
            yield [one for index, unit in enumerate(units) if chosen >> index & 1 for one in unit]
    else:
        draw = random.Random(len(units))
        for _ in range(DRAWN):
            yield [one for unit in units if draw.random() < 0.5 for one in unit]
    for index, (step, number) in enumerate(pending):
        yield pending[:index]
        yield pending[index : index + 1]
        yield pending[:index] + pending[index + 1 :]
        if step.kind == "write" and len(step.data) > 1:
            for size in {len(step.data) // 2, len(step.data) // 1024 * 512} - {0}:
                torn = Step("write", step.path, step.data[:size], step.offset), number
                yield [*pending[:index], torn]
                yield [torn]
                yield [*pending[:index], torn, *pending[index + 1 :]]
    yield pending


def _frames(units: list[list[Change]]) -> list[list[Change]]:
    """The header of a frame of SQLite's log together with its page."""
    found: list[list[Change]] = []
    for unit in units:
        before, step = found[-1][0][0] if found else None, unit[0][0]
        header = (
            before is not None
            and before.kind == step.kind == "write"
            and before.path == step.path
            and step.path.endswith("-wal")
            and len(before.data) == FRAME_HEADER
            and step.offset == before.offset + FRAME_HEADER
        )
        if header:
            found[-1] = [*found[-1], *unit]
        else:
            found.append(unit)
    return found


def view(disk: Disk, *, every_byte: bool = EVERY_BYTE) -> int:
    """What tells two disks apart."""
    files = {name: content for name, content in disk.files().items() if not name.endswith("-shm")}
    if not every_byte:
        files |= dict.fromkeys((name for name in files if name.endswith(".partial")), b"")
        for name in [name for name in files if name.endswith("-wal")]:
            database = files.get(name.removesuffix("-wal"))
            if database is not None:
                files[name] = read_alike(database, files[name] or b"")
                del files[name.removesuffix("-wal")]
    return hash(tuple(sorted(files.items())))  # names differ: contents are never compared


def different(root: Path, steps: list[Step]) -> Iterator[tuple[Disk, list[bytes]]]:
    """Each disk that is different, once: at the latest moment at which a cut may leave it."""
    last = {view(disk): number for number, (disk, _) in enumerate(cuts(root, steps))}
    wanted = set(last.values())
    for number, (disk, left) in enumerate(cuts(root, steps)):
        if number in wanted:
            yield disk, left
