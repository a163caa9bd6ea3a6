"""An exception at every line of an answer and of a collection, and what is left of them.

A signal handler, a full stack or memory can end a call anywhere. Afterwards a device still has one
report a round and has not spent more than it says; a server has counted a report once.
"""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.depth import moments
from tests.interruptions import all_interruptions, interrupted
from tests.local.devices import asked, coin, device
from tests.local.settings import GIVEN
from tidegate.errors import TidegateError
from tidegate.local.announcements_and_reports import Report
from tidegate.local.device_memory import Memory
from tidegate.local.report_checks import RejectedError
from tidegate.local.server import Server
from tidegate.local.server_store import ServerStateError
from tidegate.local.topl import Topl

# What only reads, and so cannot be left half-way: not followed, for the sake of time.
PURE = (
    *(
        "local/canonical_json.py",
        "local/announcements_and_reports.py",
        "local/questions/",
        "local/integer_weights.py",
        "local/question_assignment.py",
    ),
    *(
        "local/narrow_integers.py",
        "noise/",
        "lattice.py",
        "settings.py",
        "exact_numbers.py",
        "guarantee.py",
    ),
)
FIRST, SECOND = (asked(name, coin()).json() for name in ("r1", "r2"))
TOPL = Topl(**{**GIVEN, "report": "stochastic-rounding"})


def answered(memory: Memory, text: str, event: str) -> Report | None:
    """A report of a device with a lifetime of one report; None: it refuses."""
    try:
        return device(memory, lifetime=1).answer(text, 7, event=event)
    except TidegateError:
        return None


def test_an_answer_that_is_interrupted_anywhere_leaves_one_report_or_none() -> None:
    """Without a file: the object itself must be right, or refuse."""
    outcomes = set()
    for at, memory in all_interruptions(
        Memory.volatile,
        lambda memory: device(memory, lifetime=1).answer(FIRST, 7, event="1"),
        bytecodes=("local/device_memory.py",),
        pure=PURE,
    ):
        known = memory.pin("r1")
        first = answered(memory, FIRST, "1")
        second = answered(memory, SECOND, "2")
        assert second is None or first is None, at  # else two epsilons were spent, of one
        assert answered(memory, FIRST, "1") == first, at
        if known is not None and first is not None:
            assert first.report == known.report, at
        outcomes.add((known is not None, first is not None, second is not None))
    # Nothing was known and it goes on; nothing was known and it refuses; it was known.
    assert outcomes >= {(False, True, False), (False, False, False), (True, True, False)}


def test_a_file_that_is_interrupted_anywhere_holds_what_may_have_been_sent(
    quick_folder: Path,
) -> None:
    numbers: Iterator[int] = iter(range(10**6))
    outcomes = set()

    def make() -> Memory:
        return Memory.open(quick_folder / f"device-{next(numbers)}")

    for at, memory in all_interruptions(
        make, lambda memory: answered(memory, FIRST, "1"), pure=PURE
    ):
        path = memory.path
        assert path is not None
        first = answered(memory, FIRST, "1")  # of the same object: refused, or remembered
        memory.close()
        with Memory.open(path) as again:
            stored = again.pin("r1")
            assert first is None or (stored is not None and stored.report == first.report), at
            report = answered(again, FIRST, "1")
            assert report is not None
            assert stored is None or report.report == stored.report, at
            assert answered(again, SECOND, "2") is None, at
        outcomes.add((first is not None, stored is not None))
        path.unlink()
    assert outcomes >= {(True, True), (False, False), (False, True)}


@pytest.mark.parametrize("second", ["the same round", "another round"])
def test_a_signal_handler_that_answers_in_between_does_not_make_two_reports(second: str) -> None:
    """It comes back into the device in the middle of an answer, at every place there is."""
    outcomes = set()
    text, event = (FIRST, "1") if second == "the same round" else (SECOND, "2")
    for at in moments():
        memory = Memory.volatile()
        reports: list[Report | None] = []

        def answer(text: str, event: str, memory: Memory = memory, reports: Any = reports) -> None:
            reports.append(answered(memory, text, event))

        fired = interrupted(
            partial(answer, FIRST, "1"),
            at,
            bytecodes=("local/device_memory.py",),
            pure=PURE,
            do=partial(answer, text, event),
        )
        given = {report for report in reports if report is not None}
        assert len(given) == len(memory.pins) == 1, at  # a lifetime of one report
        outcomes.add(tuple(report is not None for report in reports))
        if not fired:
            break
    assert (True, False) in outcomes  # the handler was first
    assert (False, True) in outcomes  # the handler was refused


@pytest.mark.parametrize("exists", [False, True], ids=["begin", "open"])
def test_opening_that_is_interrupted_anywhere_leaves_no_lock_behind(
    exists: bool, quick_folder: Path
) -> None:
    path = quick_folder / "device.json"
    for _ in all_interruptions(lambda: path, Memory.open):
        Memory.open(path).close()
        if not exists:
            path.unlink()


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a server that has taken no reports."""
    path = tmp_path_factory.mktemp("servers") / "begun.db"
    TOPL.server(path).close()
    return path


@pytest.mark.parametrize("stored", [True, False], ids=["file", "memory"])
def test_a_collection_that_is_interrupted_anywhere_counts_a_report_once(
    stored: bool, begun: Path, quick_folder: Path
) -> None:
    path = quick_folder / "state.db"
    outcomes = set()

    def make() -> Server:
        if not stored:
            return TOPL.server()
        path.unlink(missing_ok=True)
        shutil.copy(begun, path)
        return TOPL.server(path)

    def report(server: Server) -> str:
        return Report(
            round=server.round, phase="stream", epsilon=TOPL.epsilon, slot=0, client="c", report=1
        ).json()

    def collected(server: Server) -> str:
        try:
            server.collect(report(server))
        except RejectedError as error:
            return error.reason
        except ServerStateError:
            return "refused"
        return "taken"

    for at, server in all_interruptions(
        make, lambda server: server.collect(report(server)), pure=PURE
    ):
        again = collected(server)
        if again == "refused":  # then it says nothing either
            with pytest.raises(ServerStateError):
                server.query(0, 0)
            with pytest.raises(ServerStateError):
                _ = server.announcements
        else:
            assert (server.accepted, server.collection.collected.count) == (1, 1), at
        server.close()
        if stored:
            with TOPL.server(path) as opened:
                taken = opened.accepted
                assert opened.collection.collected.count == taken, at
                assert collected(opened) == ("duplicate" if taken else "taken"), at
                assert (opened.accepted, opened.collection.collected.count) == (1, 1), at
            outcomes.add((again, taken))
    if stored:
        assert outcomes >= {("taken", 1), ("refused", 0), ("refused", 1)}
