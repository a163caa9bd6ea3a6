"""Power cuts, the first half: a program runs under strace, and its writes are noted in order."""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CALLS = (
    "openat,close,write,pwrite64,writev,pwritev,ftruncate,fallocate,fsync,fdatasync,"
    "rename,renameat,renameat2,unlink,unlinkat,mkdir,lseek,dup,dup2,fcntl"
)
MARK = b"left: "


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
    subprocess.run([*command, sys.executable, *program], check=True, timeout=900, cwd=_PROJECT)
    steps = _parsed(log.read_text().splitlines(), str(root), existing)
    # SQLite makes its shared memory anew whenever a database is opened: it is no part of a disk.
    return [step for step in steps if not step.path.endswith("-shm")]


_PROJECT = Path(__file__).parents[2]
_CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)")
_PATH = re.compile(r'(?:(\d+), )?"((?:\\x[0-9a-f]{2})*)"')
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


def _paths(given: str, files: dict[int, tuple[str, int, bool]]) -> list[str]:
    """The paths of a call; one that is relative to an open folder has its number in front."""
    found = []
    for number, text in _PATH.findall(given):
        path = bytes.fromhex(text.replace("\\x", "")).decode("utf-8", "replace")
        if number and not path.startswith("/"):
            path = f"{files[int(number)][0]}/{path}"
        found.append(path)
    return found


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
        paths = _paths(given, files)
        if name == "openat":
            path = paths[0]
            files[result] = (path, 0, "O_APPEND" in given)
            if "O_CREAT" in given and path.startswith(root) and path not in existing:
                steps.append(Step("create", path))
                existing.add(path)
            if "O_TRUNC" in given and path.startswith(root):
                steps.append(Step("truncate", path, 0))
            continue
        if name in ("rename", "renameat", "renameat2"):
            old, new = paths
            if new.startswith(root):
                existing.discard(old)
                existing.add(new)
                steps.append(Step("rename", new, old))
            continue
        if name in ("unlink", "unlinkat"):
            path = paths[0]
            if path.startswith(root):
                existing.discard(path)
                steps.append(Step("remove", path))
            continue
        if name == "mkdir":
            if paths[0].startswith(root):
                steps.append(Step("create", paths[0], "folder"))
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
