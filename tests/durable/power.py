"""Power cuts: a recorded run, and every disk that a cut may leave of it.

`recorded` runs a program under strace and gives its writes, in order. `cuts` plays them: at every
moment before a sync, what was synced is on the disk, and of all else any part may be: nothing, all,
a beginning, all but one, one alone, the last write torn, and any other selection: all of them where
there are at most `SELECTIONS`, else as many, drawn. (`make power-cuts` plays a thousand times as
many as `make test`.) A new name, a rename or a removal is on the disk once
its folder was synced. That is less than file systems promise, and all that POSIX does.
"""

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CALLS = (
    "openat,close,write,pwrite64,writev,pwritev,ftruncate,fallocate,fsync,fdatasync,"
    "rename,renameat,renameat2,unlink,unlinkat,mkdir,lseek,dup,dup2,fcntl"
)
MARK = b"left: "
SELECTIONS = int(os.environ.get("TIDEGATE_SELECTIONS", "2"))


@dataclass
class Step:
    """One call. `kind`: write, truncate, sync, create, remove, rename, sync folder, or left."""

    kind: str
    path: str
    data: Any = None
    offset: int = 0


def traceable() -> str | None:
    """Why no program can be recorded here; None: it can."""
    if shutil.which("strace") is None:
        return "strace is not installed (Debian package strace)"
    tried = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False)
    return None if tried.returncode == 0 else "strace may not trace here (ptrace is forbidden)"


def recorded(program: list[str], root: Path) -> list[Step]:
    """What a program writes below `root`; what it writes to /dev/null after MARK has left."""
    log = root.with_name(root.name + ".strace")
    command = ["strace", "-f", "-xx", "-s", "10000000", "-e", f"trace={CALLS}", "-o", str(log)]
    existing = {str(path) for path in root.rglob("*")}
    subprocess.run([*command, sys.executable, *program], check=True, timeout=240)
    return _parsed(log.read_text().splitlines(), str(root), existing)


_CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


def _parsed(lines: list[str], root: str, existing: set[str]) -> list[Step]:
    steps: list[Step] = []
    files: dict[int, tuple[str, int, bool]] = {}  # path, offset, append
    for line in lines:
        if "unfinished ...>" in line or "resumed>" in line:
            raise AssertionError("the recorded program must have one thread")
        found = _CALL.match(line)
        if found is None or int(found[3]) < 0:
            continue
        name, given, result = found[1], found[2], int(found[3])
        texts = [bytes.fromhex(text.replace("\\x", "")) for text in _TEXT.findall(given)]
        number = int(given.split(",")[0]) if given[:1].isdigit() else -1
        if name == "openat":
            path = texts[0].decode()
            files[result] = (path, 0, "O_APPEND" in given)
            if "O_CREAT" in given and path.startswith(root) and path not in existing:
                steps.append(Step("create", path))
                existing.add(path)
            if "O_TRUNC" in given and path.startswith(root):
                steps.append(Step("truncate", path, 0))
            continue
        if name in ("rename", "renameat", "renameat2"):
            old, new = texts[0].decode(), texts[1].decode()
            if new.startswith(root):
                existing.discard(old)
                existing.add(new)
                steps.append(Step("rename", new, old))
            continue
        if name in ("unlink", "unlinkat"):
            path = texts[0].decode()
            if path.startswith(root):
                existing.discard(path)
                steps.append(Step("remove", path))
            continue
        if name == "mkdir":
            if texts[0].decode().startswith(root):
                steps.append(Step("create", texts[0].decode(), "folder"))
            continue
        if number not in files:
            continue
        path, offset, append = files[number]
        if path == "/dev/null" and name == "write" and texts[0].startswith(MARK):
            steps.append(Step("left", path, texts[0][len(MARK) :]))
        if name in ("dup", "dup2") or "F_DUPFD" in given:
            files[result] = files[number]
        if name == "lseek":
            files[number] = (path, result, append)
        if not path.startswith(root):
            continue
        if name in ("writev", "pwritev", "fallocate"):
            raise AssertionError(f"{name} is not understood")
        if name == "write":
            steps.append(Step("append" if append else "write", path, texts[0][:result], offset))
            files[number] = (path, offset + result, append)
        elif name == "pwrite64":
            steps.append(Step("write", path, texts[0][:result], int(given.rsplit(",", 1)[1])))
        elif name == "ftruncate":
            steps.append(Step("truncate", path, int(given.split(",")[1])))
        elif name in ("fsync", "fdatasync"):
            steps.append(Step("sync", path))
    return steps


# -- disks -----------------------------------------------------------------------------------------


@dataclass
class _Inode:
    content: bytearray = field(default_factory=bytearray)
    folder: bool = False


class Disk:
    """Files by name; steps are applied to it in any selection."""

    def __init__(self, root: Path) -> None:
        self.names: dict[str, _Inode] = {}
        for path in sorted(root.rglob("*")):
            content = bytearray() if path.is_dir() else bytearray(path.read_bytes())
            self.names[str(path)] = _Inode(content, path.is_dir())

    def played(self, steps: list[tuple[Step, _Inode | None]]) -> dict[str, bytes | None]:
        """What is on the disk after these steps; None: a folder."""
        names = dict(self.names)
        contents = {id(inode): bytearray(inode.content) for inode in names.values()}
        folders = {id(inode) for inode in names.values() if inode.folder}
        for step, inode in steps:
            if step.kind in ("create", "rename"):
                assert inode is not None
                if step.kind == "rename":
                    names.pop(step.data, None)
                names[step.path] = inode
                contents.setdefault(id(inode), bytearray())
                folders |= {id(inode)} if step.data == "folder" else set()
            elif step.kind == "remove":
                names.pop(step.path, None)
            elif inode is not None:
                content = contents.setdefault(id(inode), bytearray())
                if step.kind == "truncate":
                    del content[step.data :]
                    content.extend(bytes(step.data - len(content)))
                else:
                    end = step.offset + len(step.data)
                    content.extend(bytes(max(0, end - len(content))))
                    content[step.offset : end] = step.data
        return {
            name: None if id(inode) in folders else bytes(contents[id(inode)])
            for name, inode in names.items()
        }


def cuts(root: Path, steps: list[Step]) -> Iterator[tuple[dict[str, bytes | None], list[bytes]]]:
    """Every disk that a power cut may leave, and what had left the process by then."""
    disk = Disk(root)
    live = dict(disk.names)  # as the process sees it
    sizes = {id(inode): len(inode.content) for inode in live.values()}
    safe: list[tuple[Step, _Inode | None]] = []
    pending: list[tuple[Step, _Inode | None]] = []
    left: list[bytes] = []
    keep = []  # inodes, so that no id is used twice
    for step in [*steps, Step("sync", "")]:
        inode = live.get(step.path)
        if step.kind == "left":
            left.append(step.data)
        elif step.kind == "sync":
            for variant in _variants(pending):
                yield disk.played([*safe, *variant]), list(left)
            folder = [one for one in pending if _of_folder(one[0], step.path)]
            synced = [one for one in pending if one[1] is inode and one not in folder]
            synced = [one for one in synced if one[0].kind in ("write", "truncate")]
            done = folder or synced if inode is None or inode.folder else synced
            safe += [one for one in pending if one in done]
            pending = [one for one in pending if one not in done]
        else:
            if step.kind == "create":
                inode = live[step.path] = _Inode(folder=step.data == "folder")
            elif step.kind == "rename":
                inode = live[step.path] = live.pop(step.data)
            elif step.kind == "remove":
                inode = live.pop(step.path, None)
            keep.append(inode)
            size = sizes.get(id(inode), 0)
            place = size if step.kind == "append" else step.offset
            kind = "write" if step.kind == "append" else step.kind
            if kind == "write":
                sizes[id(inode)] = max(size, place + len(step.data))
            if kind == "truncate":
                sizes[id(inode)] = step.data
            pending.append((Step(kind, step.path, step.data, place), inode))


def _of_folder(step: Step, folder: str) -> bool:
    return step.kind in ("create", "rename", "remove") and str(Path(step.path).parent) == folder


def _variants(pending: list[Any]) -> Iterator[list[Any]]:
    """Selections of what is not yet safe: any of it may be on the disk."""
    for end in range(len(pending) + 1):
        yield pending[:end]
    for index in range(len(pending)):
        yield pending[:index] + pending[index + 1 :]
        step, inode = pending[index]
        yield [pending[index]]
        if step.kind == "write" and len(step.data) > 1:
            for size in {len(step.data) // 2, len(step.data) // 1024 * 512} - {0}:
                torn = Step("write", step.path, step.data[:size], step.offset)
                yield [*pending[:index], (torn, inode)]
    draw = random.Random(len(pending))
    every = 1 << len(pending)
    for chosen in range(every) if every <= SELECTIONS else draw.choices(range(every), k=SELECTIONS):
        yield [one for index, one in enumerate(pending) if chosen >> index & 1]


def written(disk: dict[str, bytes | None], old: Path, new: Path) -> None:
    """Put a disk into a folder."""
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    for name, content in sorted(disk.items()):
        path = new / Path(name).relative_to(old)
        if not path.parent.is_dir() or name.endswith("-shm"):
            continue  # its folder is not on the disk; SQLite makes its shared memory anew
        if content is None:
            path.mkdir(mode=0o700, exist_ok=True)
        else:
            path.write_bytes(content)
            path.chmod(0o600)
