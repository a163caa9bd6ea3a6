"""A keyed release in a store is changed by its holder alone, one thread at a time, or refuses."""

from __future__ import annotations

import os
import shutil
import threading
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.depth import depth
from tests.interruptions import Interrupted, all_interruptions
from tests.privacy.test_forked_processes import REFUSED, in_child, outcome
from tidegate.durable import StateError, StorageError
from tidegate.errors import InputError, TidegateError
from tidegate.io import Batch
from tidegate.io.batches import object_array
from tidegate.keyed.committed_keyed_release import changing_committed_release
from tidegate.keyed.durable_folder import DurableKeyed
from tidegate.keyed.key_names import KeyNames
from tidegate.keyed.keyed_release import KeyedRelease
from tidegate.keyed.keyed_store import KeyedStore
from tidegate.keyed.object_engine import ObjectEngine
from tidegate.keyed.recorded_columns import RecordedColumns
from tidegate.ownership import HeldOwnership

PIPELINE = tg.tops(epsilon=1, bound=9, holdout=8, horizon=64)
SPECIFICATION = tg.keyed(PIPELINE, keys=["a", "b"])
EVENTS = tg.keyed(
    tg.events(epsilon=1, bound=9, every="1h", start="2024-01-01", horizon=64), keys=["a", "b"]
)
FOLLOWED = ("keyed/committed_keyed_release.py", "keyed/durable_folder.py")
HOME = Path(tg.__file__).parent
# An exception inside of these is one at their call, as far as the holder is concerned.
OTHERS = tuple(
    str(path.relative_to(HOME))
    for path in (*HOME.glob("*.py"), *HOME.glob("keyed/*.py"), *HOME.glob("*/"))
    if path.name not in ("__pycache__", "keyed") and str(path.relative_to(HOME)) not in FOLLOWED
)


def batch(rows: int) -> Batch:
    return Batch(np.full(rows, 3.0), object_array(["a", "b"] * (rows // 2)))


def opened(folder: Path) -> DurableKeyed:
    return DurableKeyed.open(folder, SPECIFICATION)


def test_rows_whose_commit_failed_are_not_taken_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in memory: a retry would count each of them once more, and skip its positions."""
    state = opened(tmp_path / "s")
    state.push(batch(20), "keep", None)

    def full(*_: Any, **__: Any) -> None:
        raise StorageError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(KeyedStore, "commit", full)
        with pytest.raises(StorageError):
            state.push(batch(6), "keep", None)
    for action in (lambda: state.push(batch(6), "keep", None), state.finish):
        with pytest.raises(TidegateError, match=r"cut short.*open the state again"):
            action()
    assert state.cut_short
    state.close()
    with opened(tmp_path / "s") as again:
        assert again.seen == 20
        assert again.push(batch(6), "keep", None).positions.tolist() == [2, 2, 3, 3, 4, 4]


def test_what_is_refused_leaves_it_usable(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as state:
        with pytest.raises(InputError):
            state.push(Batch(np.array(["x"]), object_array(["a"])), "keep", None)
        state.push(batch(20), "keep", None)
        assert (state.seen, state.cut_short) == (20, False)


def test_an_exception_at_any_line_of_a_push(tmp_path: Path) -> None:
    base, numbers = tmp_path / "base", count()
    with opened(base) as state:
        state.push(batch(20), "keep", None)

    made: list[DurableKeyed] = []

    def make() -> DurableKeyed:
        made.append(opened(Path(shutil.copytree(base, tmp_path / str(next(numbers))))))
        return made[-1]

    outcomes = set()
    act = lambda state: state.push(batch(6), "keep", None)  # noqa: E731  # what is interrupted
    for at, state in all_interruptions(make, act, pure=OTHERS):
        folder = state._store.folder
        try:
            act(state)
        except TidegateError:
            state.close()
            with opened(folder) as reopened:
                assert reopened.seen in (20, 26), at
                outcomes.add((True, reopened.seen))
        else:  # the first time took nothing, so the second is the only one
            assert state.seen == 26, at
            outcomes.add((False, 26))
            state.close()
    made[-1].close()  # that was not interrupted any more
    assert outcomes == {(True, 20), (True, 26), (False, 26)}


@pytest.mark.parametrize("specification", [SPECIFICATION, EVENTS], ids=["readings", "events"])
def test_there_is_no_way_around_the_commit(tmp_path: Path, specification: Any) -> None:
    """What is pushed to the release itself is neither charged nor stored; its noise comes again."""
    with DurableKeyed.open(tmp_path / "s", specification) as state:
        release: Any = state.release
        hour = np.array(["2024-01-01T00:30"], dtype="datetime64[m]")
        pushed = (["a"], hour, [3]) if specification is EVENTS else (["a"], [3])
        actions = {
            "push": lambda: release.push(*pushed),
            "end": lambda: release.end("a"),
            "finish": release.finish,
            "snapshot": release.snapshot,
            "close_ticks": lambda: release.close_ticks(1),
        }
        if specification is SPECIFICATION:
            del actions["close_ticks"]
        for name, action in actions.items():
            with pytest.raises(TidegateError, match="kept in a store"):
                action()
            assert state.seen == 0, name
        assert not state.cut_short
        assert release.keys == ["a", "b"]


def test_threads_that_push_at_once(tmp_path: Path) -> None:
    found: list[Any] = []
    barrier = threading.Barrier(3)
    state = opened(tmp_path / "s")

    def pushing() -> None:
        barrier.wait()
        try:
            found.extend(state.push(batch(6), "keep", None) for _ in range(12))
        except BaseException as error:  # noqa: BLE001  # looked at below
            found.append(error)

    threads = [threading.Thread(target=pushing) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state.close()
    positions = [rows.positions[rows.codes == 0].tolist() for rows in found]
    assert sorted(chain.from_iterable(positions)) == list(
        range(100)
    )  # 3 · 12 · 3 rows, 8 of them held out
    with opened(tmp_path / "s") as again:
        units = PIPELINE.lattice.units(np.full(216, 3.0))
        assert again.recogniser().push(units, ["a", "b"] * 108, None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_refuses_at_once(tmp_path: Path) -> None:
    """Even while another thread of the parent holds the lock: the child has no such thread."""
    with opened(tmp_path / "s") as state:
        state.push(batch(20), "keep", None)
        held, free = threading.Event(), threading.Event()

        def hold() -> None:
            with state._ownership.lock:
                held.set()
                free.wait(20)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        assert in_child(lambda: outcome(lambda: state.push(batch(6), "keep", None))) == REFUSED
        free.set()
        thread.join()
        assert len(state.push(batch(6), "keep", None)) == 6


def test_another_branch_of_the_state_is_refused(tmp_path: Path) -> None:
    """As old as the newest commit that the lock file knows, and not that commit."""
    with opened(tmp_path / "s") as state:
        state.push(batch(20), "keep", None)
    shutil.copytree(tmp_path / "s", tmp_path / "branch")
    for name, rows in (("s", batch(6)), ("branch", batch(4))):
        with opened(tmp_path / name) as state:
            state.push(rows, "keep", None)
    shutil.copy(tmp_path / "branch" / "keys.sqlite", tmp_path / "s" / "keys.sqlite")
    with pytest.raises(StateError, match="put back from a copy"):
        opened(tmp_path / "s")


class Holder:
    """Changes something, as `CommittedKeyed` does."""

    def __init__(self) -> None:
        self._ownership, self.settled = HeldOwnership(), True

    @changing_committed_release
    def change(self) -> None:
        self.settled = False
        self._ownership.begin()
        self._ownership.done()


def test_no_interruption_of_the_holder_lets_others_in() -> None:
    """A mark that the holder left behind would let a push through that nobody commits.

    But for the yield itself: there the tracer ends a generator without its `finally`, which no
    signal does.
    """
    let_in, closely, at = [], ("ownership.py", "keyed/committed_keyed_release.py"), 0
    for at, holder in all_interruptions(Holder, Holder.change, bytecodes=closely):
        try:
            holder._ownership.begin()
            let_in.append(at)
        except TidegateError:
            continue
    assert len(let_in) <= 1
    assert at > 50


def test_new_keys_are_added_once_their_push_is_taken() -> None:
    """A push that is refused, or cut short while keys are looked up, had added them."""
    names = KeyNames(None)
    first = names.codes(["south", "north", "south"], 3, 0)
    assert first.tolist() == [0, 1, 0]
    assert len(names) == 0
    assert names.codes(["east"], 1, 0).tolist() == [0]  # the push before was not taken
    names.add_new()
    assert names.names == ["east"]
    assert names.codes(["north", "east", 7], 3, 1).tolist() == [1, 0, 2]
    names.add_new()
    assert names.names == ["east", "north", "7"]


REFINED = tg.keyed(tg.adaptive(epsilon=3, bound=40, horizon=200), keys=["a"])


def test_a_question_that_is_interrupted_loses_no_state() -> None:
    """A key without one would begin anew: the same noise on other values."""
    release = REFINED.start(tg.seeded(1))
    release.push(["a"] * 90, np.full(90, 3.0))
    before = release.snapshot()
    engine = "keyed/object_engine.py"  # where keys rest until somebody asks
    others = tuple(one for one in (*OTHERS, *FOLLOWED) if one != engine)
    for ask in (lambda one: one.query(key="a"), KeyedRelease.released_keys):
        asked, events = REFINED.resume(before), 0
        ask(asked)
        expected = before, asked.snapshot()
        for at, one in all_interruptions(lambda: REFINED.resume(before), ask, pure=others):
            assert one.snapshot() in expected, at
            events += 1
        assert events > depth(3, 10)


def test_nor_is_a_key_in_columns_taken_for_older_than_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its release is brought up to date by a question, which may end before it is."""
    releases = [REFINED.start(tg.seeded(1)) for _ in range(2)]
    for release in releases:
        release.push(["a"] * 154, np.full(154, 3.0))
    with monkeypatch.context() as patch:
        patch.setattr(RecordedColumns, "run", lambda *_: interrupt())
        with pytest.raises(Interrupted):
            releases[0].query(key="a")
    assert releases[0].snapshot() == releases[1].snapshot()


@pytest.mark.parametrize("ask", ["released_keys", "unmeasured", "view"])
def test_questions_that_wake_keys_wait_for_a_push(ask: str) -> None:
    """A key that both wake would go on from where it rested: its noise comes again."""
    release = REFINED.start(tg.seeded(1))
    release.push(["a"] * 30, np.full(30, 3.0))
    thread = threading.Thread(target=getattr(release, ask))
    with release._ownership.lock:  # as a push holds it
        thread.start()
        thread.join(0.1)
        assert thread.is_alive()
    thread.join()


def test_readers_do_not_replace_what_a_push_writes_to() -> None:
    """One that grew the counts beside a push would leave it writing to an array that is gone."""
    release: Any = tg.keyed(REFINED.pipeline, keys_are_public=True).start(tg.seeded(1))
    release.push(["a"], [1])
    counts = release._engine._counts
    release._names.codes(["b", "c"], 2, 1)
    release._names.add_new()  # as a push does before it takes their rows
    assert (release.position, release.counts().tolist()) == (1, [1, 0, 0])
    assert repr(release) + release._repr_html_()
    assert release._engine._counts is counts


def interrupt() -> None:
    raise Interrupted


def test_asking_how_much_is_released_changes_nothing() -> None:
    """Other threads ask without the lock, while a push makes room for new keys."""
    release = tg.keyed(tg.tops(1, 10, horizon=64, holdout=4), keys_are_public=True).start()
    release.push(["a", "b"], [1.0, 2.0])
    engine = release._engine
    assert isinstance(engine, ObjectEngine)
    room = engine._counts
    for name in ("c", "d", "e"):  # as a push that has begun does
        release._names.add(name)
    assert engine.positions().size == release.counts().size == 5
    assert release.position == int(room.sum())
    assert engine._counts is room
