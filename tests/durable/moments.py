"""Every moment of a durable run: what is on the disk at each line of it, and after it was stopped.

`kills` looks at the folder as a kill at each line would leave it: no handler has run. By hand it
passes over every other folder that is different.
`interruptions` runs an action again and again, raises at its first, second, third … line (by hand
at every third of them), and looks at what that leaves: all handlers have run. Folders that were
seen before are left out.
"""

import gc
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import tidegate
from tests.depth import depth, moments
from tests.interruptions import Interrupted
from tidegate.durable.folder_lock import anchor_kept_in_folder

_SHARED = Path("/dev/shm")  # a folder in memory: every moment opens and closes a database


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for thousands of small files and syncs, on no disk if that can be."""
    place = _SHARED if os.access(_SHARED, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield Path(folder)


_HOME = str(Path(tidegate.__file__).parent) + os.sep


def traced(places: tuple[str, ...], reached: Callable[[], None], action: Callable[[], Any]) -> None:
    """Run `action`, and call `reached` before every line of the modules that begin like that."""
    wanted = tuple(_HOME + place for place in places)
    for place in wanted:  # a name that nothing has would be followed by nobody
        assert Path(place).exists() or Path(f"{place}.py").exists(), place

    followed: dict[Any, bool] = {}

    def entered(frame: Any, event: str, given: Any) -> Any:
        code = frame.f_code
        if code not in followed:
            followed[code] = code.co_filename.startswith(wanted)
        return line if followed[code] else None

    def line(frame: Any, event: str, given: Any) -> Any:
        if event == "line":
            reached()
        return line

    sys.settrace(entered)
    try:
        action()
    finally:
        sys.settrace(None)


def content(folder: Path) -> list[Any]:
    """What tells two folders apart; hashes of times and random salts would do so always."""
    database = folder / "state.sqlite"
    digest = hashlib.sha256(database.read_bytes() if database.exists() else b"").digest()
    sizes = [(path.name, path.stat().st_size) for path in sorted(folder.iterdir())]
    return [digest, anchor_kept_in_folder(folder) and anchor_kept_in_folder(folder)[0], *sizes]


def image(folder: Path, target: Path) -> None:
    """A copy of a folder as a process that starts now would find it."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("*-shm"))


Act = Callable[[Path, list[Any]], None]


def kills(base: Path, act: Act, look: Act) -> tuple[int, int]:
    """Look at what a kill would leave at every line of `act(folder, out)`.

    `act` works on a copy of `base`, and notes in `out` what has left; `look(image, out)` has both
    as of that line. One run is enough: a kill changes nothing. Gives how many lines there were,
    and how many different folders.
    """
    work, copies = base.with_name("work"), base.with_name("copies")
    image(base, work)
    copies.mkdir()
    out: list[Any] = []
    found: list[list[Any]] = []
    lines, known = 0, None

    def reached() -> None:
        nonlocal lines, known
        lines += 1
        now = [(path.name, _times(path)) for path in sorted(work.iterdir())], len(out)
        if now != known:
            known = now
            image(work, copies / str(len(found)))
            found.append(list(out))

    traced(("",), reached, lambda: act(work, out))
    reached()
    for number, left in enumerate(found):
        if number % depth(2, 1) == 0 or number == len(found) - 1:  # by hand every other one
            look(copies / str(number), left)
    shutil.rmtree(copies)
    return lines, len(found)


def _times(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def interruptions(
    base: Path, act: Act, look: Act, places: tuple[str, ...], after: Any = None
) -> tuple[int, int]:
    """Raise at the lines of `act(folder, out)` in some places, and look at what this leaves.

    `after(out)` may look at what is left in memory. Gives how many lines there were, and how many
    different folders.
    """
    known: set[str] = set()
    work, looked_at = base.with_name("work"), base.with_name("looked at")
    for at in moments():
        image(base, work)
        out: list[Any] = []
        left = at

        def reached() -> None:
            nonlocal left
            left -= 1
            if left == -1:
                sys.settrace(None)
                raise Interrupted

        with suppress(Interrupted):
            traced(places, reached, lambda out=out: act(work, out))  # type: ignore[misc]
        if left >= 0:
            gc.collect()  # files that were opened and not yet assigned
            return at, len(known)
        if after is not None:
            after(out)
        seen = repr((content(work), len(out)))
        if seen not in known:
            known.add(seen)
            image(work, looked_at)  # what was interrupted may still have the other one locked
            look(looked_at, out)
    raise AssertionError
