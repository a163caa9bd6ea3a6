"""One lock and one process: threads cannot get between state and journal, a child cannot go on."""

import fcntl
import gc
import os
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import tidegate as tg
from tidegate.durable import DurableRelease, StateError
from tidegate.errors import TidegateError
from tidegate.ledger import Ledger
from tidegate.units import UserHorizon

SMALL = {"epsilon": 1, "bound": 100, "resolution": 1, "holdout": 8, "horizon": 64}
PIPELINE = tg.tops(**SMALL, fanout=4, skipped=1, rethreshold_every=40)
GUIDED = tg.adaptive(**SMALL)


def concatenated(pieces):
    return np.concatenate([np.empty(0), *(values for _, values in pieces)])


@pytest.mark.parametrize("pipeline", [PIPELINE, GUIDED], ids=["tops", "adaptive"])
def test_threads_that_push_read_and_replay_at_once(tmp_path, pipeline):
    """Every piece was returned once, and the journal holds them in the order of positions."""
    returned, troubles = [], []
    barrier = threading.Barrier(6)

    def pushing(seed):
        barrier.wait()
        sizes = np.random.default_rng(seed).integers(1, 5, 40)
        returned.extend(run.push(np.full(size, seed)) for size in sizes)

    def reading():
        barrier.wait()
        for _ in range(8):
            before = run.position
            if before:
                run.query(0, 1)
            assert concatenated(run.replay()).size >= before
            assert run.facts()["released"] >= before
            assert run.recogniser().left >= before

    def guarded(work, *given):
        try:
            work(*given)
        except BaseException as error:  # noqa: BLE001  # the test shows what it was
            troubles.append(error)

    with DurableRelease.open(tmp_path / "s", pipeline) as run:
        threads = [threading.Thread(target=guarded, args=(pushing, seed)) for seed in range(4)]
        threads += [threading.Thread(target=guarded, args=(reading,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not troubles
        seen = run.seen
    pieces = sorted((first, values) for first, values in returned if values.size)
    firsts = [first for first, _ in pieces]
    ends = np.cumsum([0, *(values.size for _, values in pieces)]).tolist()
    assert firsts == ends[:-1]  # no position twice, none left out
    with DurableRelease.open(tmp_path / "s", pipeline) as run:
        assert (run.seen, run.position) == (seen, ends[-1])
        assert concatenated(run.replay()).tobytes() == concatenated(pieces).tobytes()


def test_threads_that_change_the_key_and_close_meanwhile(tmp_path):
    """Housekeeping waits for a push and a push for it; after closing, pushes are refused."""
    keys = [bytes([number]) * 32 for number in range(6)]
    folder, outcomes, returned = tmp_path / "s", [], []
    run = DurableRelease.open(folder, PIPELINE, key=keys[0])
    barrier = threading.Barrier(2)

    def pushing():
        barrier.wait()
        try:
            while True:
                returned.append(run.push(np.ones(3)))
        except BaseException as error:  # noqa: BLE001  # looked at below
            outcomes.append(error)

    thread = threading.Thread(target=pushing)
    thread.start()
    barrier.wait()
    for key in keys[1:]:
        run.change_key(key)
    run.close()
    thread.join()
    assert [type(error) for error in outcomes] == [StateError]
    assert "closed" in str(outcomes[0])
    with DurableRelease.open(folder, PIPELINE, key=keys[-1]) as again:
        assert concatenated(again.replay()).tobytes() == concatenated(returned).tobytes()


def test_there_is_no_way_around_the_journal(tmp_path):
    with DurableRelease.open(tmp_path / "s", PIPELINE) as run:
        public = {name for name in dir(run) if not name.startswith("_")}
        facts = {
            "clock", "commits", "cut_short", "dropped", "epoch", "guarantee", "holding", "offset",
            "phases", "pipeline", "position", "record", "resumable", "sealed", "seen", "source",
            "threshold", "waiting", "warming",
        }  # fmt: skip
        reading = {
            "due", "facts", "fingerprint", "moved_over", "moving", "queries", "query", "recogniser",
            "replay", "replay_rows", "table", "view",
        }  # fmt: skip
        assert public == facts | reading | {
            "advance", "begin_charges", "change_key", "close", "continued", "erase", "existing",
            "finish", "open", "mark", "push", "push_rows", "save", "unseal",
        }  # fmt: skip
        for name in facts:
            with pytest.raises(AttributeError):
                setattr(run, name, None)
        run.phases.clear()  # a copy


def test_what_is_public_of_a_durable_release_is_what_the_release_says(tmp_path):
    plain = GUIDED.start()
    with DurableRelease.open(tmp_path / "s", GUIDED) as run:
        assert (run.threshold, run.phases, run.record, run.holding) == (None, [], None, 8)
        with pytest.raises(tg.errors.QueryError, match="8 more"):
            run.query(0, 1)
        run.push(np.arange(100))
        plain.push(np.arange(100))
        assert (run.seen, run.position, run.holding) == (100, 92, 0)
        assert (plain.seen, plain.position, plain.holding) == (100, 92, 0)
        assert run.guarantee == plain.guarantee
        assert run.threshold == run.phases[-1].threshold
        assert run.query(3, 50) == run.record.query(3, 50) == run.queries([3], [50])[0]
        kept = run.record
        before = kept.end
        run.push(np.arange(50))
        run.query(0, 1)
        assert kept.end == before  # a record that was given out does not change any more
        assert "seen=150 position=142" in repr(run)


# -- processes -----------------------------------------------------------------------------------


def in_child(work):
    """What `work()` gives in a forked process, as text; its interpreter ends as usual there."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        try:
            answer = str(work())
        except BaseException as error:  # noqa: BLE001  # told to the parent
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode()
    assert os.waitpid(process, 0)[1] == 0
    return answer


def descriptors(folder):
    """Which files of a folder this process has open."""
    opened = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            opened.append(entry.readlink())
    return sorted(path.name for path in opened if folder in path.parents)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks at /proc")
def test_a_forked_process_refuses_and_holds_no_lock(tmp_path):
    folder = tmp_path / "s"
    run = DurableRelease.open(folder, PIPELINE)
    first = run.push(np.arange(50.0))[1]

    def child():
        refused = []
        for work in (
            lambda: run.push([1.0]),
            lambda: list(run.replay()),
            lambda: run.query(0, 1),
            lambda: run.record,
            run.facts,
            run.recogniser,
            run.erase,
            run.unseal,
            lambda: run._ledger.charge(
                source="s", epoch="e", stage="stream", start=0, guarantee=PIPELINE.guarantee
            ),
        ):
            try:
                work()
            except TidegateError as error:
                refused.append("parent" in str(error))
        run.close()  # as `with` would: harmless
        return refused, run._store._database, descriptors(folder)

    answer = in_child(child)
    assert answer.startswith(f"({[True] * 9}, None,")
    assert "lock" not in answer
    assert "ledger" not in answer
    second = run.push(np.arange(50.0))[1]  # the parent goes on
    assert concatenated(run.replay()).tobytes() == np.concatenate((first, second)).tobytes()
    run.close()


def test_a_child_that_outlives_its_parent_keeps_nobody_out_and_harms_nothing(tmp_path):
    """Its end, and the collection of what it inherited, leave the log of a later process alone.

    SQLite removes the log when the last connection is closed. One that a child inherited takes
    itself for that, while the log holds what another process committed before it was killed.
    """
    folder = tmp_path / "s"
    reading, writing = os.pipe()
    begun, begin = os.pipe()
    run = DurableRelease.open(folder, PIPELINE)
    run.push(np.arange(30.0))
    process = os.fork()
    if not process:
        os.close(writing)
        os.write(begin, b"!")
        os.read(reading, 1)  # until the parent says so
        del run  # collected here
        gc.collect()
        os._exit(0)
    os.close(reading)
    os.read(begun, 1)
    run.close()

    alive = []

    def later():
        alive.append(DurableRelease.open(folder, PIPELINE))  # never collected: as if killed
        return alive[0].push(np.arange(30.0))[1].tobytes().hex()

    values = bytes.fromhex(in_child(later))
    log = (folder / "state.sqlite-wal").read_bytes()
    assert log
    os.close(writing)
    assert os.waitpid(process, 0)[1] == 0
    assert (folder / "state.sqlite-wal").read_bytes() == log
    with DurableRelease.open(folder, PIPELINE) as run:
        assert concatenated(run.replay())[-30:].tobytes() == values


def test_a_child_of_a_thread_that_pushes_does_not_hang(tmp_path):
    """The lock was held by a thread that the child does not have."""
    run = DurableRelease.open(tmp_path / "s", PIPELINE)
    inside, leave = threading.Event(), threading.Event()
    charge = Ledger.charge

    class Slow:
        """A ledger whose charges take until they are told."""

        def __getattr__(self, name):
            return getattr(run._ledger, name)

        def charge(self, **given):
            inside.set()
            leave.wait()
            return charge(run._ledger, **given)

    run._charging._ledger = Slow()
    thread = threading.Thread(target=run.push, args=(np.arange(20.0),))
    thread.start()
    inside.wait()
    assert "Only the parent may use it" in in_child(lambda: run.push([1.0]))
    leave.set()
    thread.join()
    assert run.seen == 20
    run.close()


def test_a_lock_file_that_was_replaced_is_not_taken_for_the_lock(tmp_path, monkeypatch):
    """Opened, then removed by somebody, then locked: another process may hold the new one."""
    folder = tmp_path / "s"
    DurableRelease.open(folder, PIPELINE).close()
    locked = fcntl.flock

    def flock(descriptor, how):
        monkeypatch.setattr(fcntl, "flock", locked)
        (folder / "lock").unlink()
        return locked(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(StateError, match="another process"):
        DurableRelease.open(folder, PIPELINE)


def test_users_under_threads_are_counted_once_each(tmp_path):
    """The journal of users is behind the same lock."""
    pipeline = tg.tops(
        epsilon=1, bound=100, resolution=1, holdout=8, horizon=512, unit=UserHorizon(most=3)
    )
    barrier = threading.Barrier(3)

    def pushing(name):
        barrier.wait()
        for _ in range(20):
            run.push([1.0, 2.0], [name, "shared"])

    with DurableRelease.open(tmp_path / "s", pipeline) as run:
        threads = [threading.Thread(target=pushing, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with DurableRelease.open(tmp_path / "s", pipeline) as run:
        assert run.seen == 120
        assert run._release.user_cap.counts == dict.fromkeys(["a", "b", "c", "shared"], 3)
