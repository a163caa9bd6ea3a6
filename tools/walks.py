"""Traces real calls and lists the files of Tidegate that they pass through.

A walk is measured, not written down: `sys.setprofile` notes every Python function that is called.
Files are listed in the order in which the call reaches them.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import tidegate as tg
from tidegate.local.client import Client
from tidegate.local.device_memory import Memory
from tidegate.local.server import Server

PACKAGE = Path(tg.__file__).parent
_ROOT = str(PACKAGE) + "/"
_WARM, _SINGLES = 39_000, 6000  # values pushed at once, then one by one


class Step(NamedTuple):
    """A file on the way, and the first functions in it that the call enters."""

    file: str
    functions: tuple[str, ...]
    summary: str


class Walk(NamedTuple):
    title: str
    note: str
    limit: int | None  # the most files that it may pass through
    steps: tuple[Step, ...]

    @property
    def files(self) -> list[str]:
        return [step.file for step in self.steps]


def traced(call: Callable[[], object]) -> dict[str, list[CodeType]]:
    """From each file that the call passes through, in order, to the functions that it enters."""
    found: dict[str, dict[CodeType, None]] = {}

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if code.co_name[0] == "<" or code.co_name == "__hash__":  # caches ask, if they are not full
            return
        if event == "call" and code.co_filename.startswith(_ROOT):
            found.setdefault(code.co_filename[len(_ROOT) :], {})[code] = None

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {file: list(codes) for file, codes in found.items()}


@lru_cache(maxsize=256)
def _docstrings(file: str) -> dict[int, str]:
    """From the first line of each function to the first sentence of its docstring."""
    found = {}
    for node in ast.walk(ast.parse((PACKAGE / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            line = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            paragraph = (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", " ")
            found[line] = re.split(r"(?<=[^0-9])\. ", paragraph)[0].rstrip(".")
    return found


def steps(found: dict[str, list[CodeType]]) -> tuple[Step, ...]:
    """What happens in each file, in the words of the first function there that has a docstring."""
    listed = []
    for file, codes in found.items():
        said = _docstrings(file)
        summary = next(filter(None, (said.get(code.co_firstlineno) for code in codes)), "")
        names = tuple(dict.fromkeys(code.co_qualname for code in codes))
        listed.append(Step(file, names[:3], summary))
    return tuple(listed)


def _pushes(name: str, release: tg.Release, values: Any) -> list[Walk]:
    """Push values one by one and group them by the files that they pass through."""
    kinds: dict[tuple[str, ...], dict[str, list[CodeType]]] = {}
    counts = Counter[tuple[str, ...]]()
    for value in values:
        found = traced(lambda value=float(value): release.push(value))  # type: ignore[misc]
        key = tuple(sorted(found))
        counts[key] += 1
        kinds.setdefault(key, found)
    common = counts.most_common()
    titles = [
        (f"Push one value: `{name}`", "inside a block", 9),
        (f"Push one value that ends a cell or a block: `{name}`", "at the end of a cell", 9),
    ]
    walks = [
        Walk(title, f"{counts[key]} of {len(values)} values: {where}", limit, steps(kinds[key]))
        for (title, where, limit), (key, _) in zip(titles, common, strict=False)
    ]
    rest = sum(count for _, count in common[2:])
    if rest:
        most = max((key for key, _ in common[2:]), key=len)
        note = f"the longest of the other {rest} of {len(values)} values: a block ends or begins"
        walks.append(Walk(f"The rarest pushes: `{name}`", note, None, steps(kinds[most])))
    return walks


def _queries(name: str, release: tg.Release) -> list[Walk]:
    """The first query after a push computes the posterior; the next ones use it."""
    end = release.position - 77  # under the present threshold, and inside a block
    release.query(end - 19_000, end)
    release.push(3.0)
    first = traced(lambda: release.query(end - 19_000, end))
    later = traced(lambda: release.query(end - 18_000, end - 100))
    return [
        Walk(f"Ask for one range: `{name}`", "the posterior is cached", 9, steps(later)),
        Walk(
            f"Ask for one range just after a push: `{name}`",
            "the posterior is computed first",
            None,
            steps(first),
        ),
    ]


def central() -> list[Walk]:
    """One pushed value and one query, of `tops` and of `adaptive`."""
    values = tg.synthetic.baskets(_WARM + _SINGLES)
    public = {"epsilon": 0.5, "bound": 500, "horizon": 2**16}
    pipelines = {
        "tops": tg.tops(**public, holdout=4096),  # type: ignore[arg-type]
        "adaptive": tg.adaptive(**public),  # type: ignore[arg-type]
        "adaptive, holdout=4096": tg.adaptive(**public, holdout=4096),  # type: ignore[arg-type]
    }
    pushes, queries = [], []
    for name, pipeline in pipelines.items():
        release = pipeline.start(tg.seeded(7))
        release.push(values[:_WARM])
        pushes += _pushes(name, release, values[_WARM:])
        queries += _queries(name, release)
    return pushes + queries


def _exchange(server: Server, client: Client, event: str) -> Callable[[], None]:
    announcement = server.announcement().json()
    return lambda: server.collect(client.answer(announcement, 17, event=event).json())


def local() -> list[Walk]:
    """A device answers and the server collects, both in memory; everything goes as JSON."""
    walks = []
    for title, threshold, limit, note in (
        ("about the tail", None, 12, "while θ is being chosen"),
        ("about its value", 100, 12, "once θ is known; sums are made when someone asks"),
    ):
        server = tg.topl(epsilon=1, bound=500, threshold=threshold).server()
        client = Client(epsilon=1, bound=500, lifetime=9, memory=Memory.volatile())
        for event in ("first", "second"):  # fill the caches
            _exchange(server, client, event)()
            server.next_round()
        found = traced(_exchange(server, client, "third"))
        walks.append(Walk(f"Report {title}: `answer` → `collect`", note, limit, steps(found)))
    return walks


def all_walks() -> list[Walk]:
    central()  # the first time fills caches, which may be full or empty after other tests
    return central() + local()
