"""A forked process inherits the noise of every release, and must never use it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import tidegate as tg
from tests.depth import depth
from tests.interruptions import interrupted
from tidegate.errors import TidegateError
from tidegate.ownership import Ownership

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # that is what is tested
]
PIPELINE = tg.tops(epsilon=1, bound=9, holdout=2, horizon=4, fanout=2, skipped=1)
REFUSED, WENT_ON, OTHERWISE = 0, 1, 2
# They change nothing but what is theirs: a fork inside is one at their call.
PURE = (
    *("settings.py", "exact_numbers.py", "guarantee.py", "randomness.py", "lattice.py"),
    *("noise/", "threshold/", "perturb/", "estimate/", "record/"),
)


def started() -> tg.Release:
    release = PIPELINE.start(tg.seeded(1))
    release.push([1, 2, 3])
    return release


def middle() -> int:
    """An event of `push([4, 5])` by which the value has been taken, but not released."""
    for at in range(1000):
        release, found = started(), []
        interrupted(
            lambda release=release: release.push([4, 5]),  # type: ignore[misc]
            at,
            do=lambda release=release, found=found: found.append(release.seen),  # type: ignore[misc]
        )
        if found == [5]:
            return at
    raise AssertionError("there is no such event")


def outcome(action: Callable[[], Any]) -> int:
    try:
        action()
    except TidegateError as error:
        return REFUSED if "was forked" in str(error) else OTHERWISE
    return WENT_ON


def leave(action: Callable[[], int]) -> None:
    """End the child with what `action` gives, or by an alarm if it waits for ever."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(20)
    status = OTHERWISE
    try:
        status = action()
    finally:
        os._exit(status)


def status_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_child(action: Callable[[], int]) -> int:
    child = os.fork()
    if child == 0:
        leave(action)
    return status_of(child)


def test_every_entry_refuses_in_a_child() -> None:
    release = started()
    entries = (
        lambda: release.push(4),
        lambda: release.push([4, 5]),
        release.snapshot,
        release.fork,
        release.journal_entries,
        release.save_record,
        lambda: release.query(0, 1),
    )
    assert in_child(lambda: max(outcome(entry) for entry in entries)) == REFUSED
    release.push(4)  # the parent goes on


@pytest.mark.parametrize("values", [4, [4, 5]], ids=["one", "array"])
def test_a_fork_at_every_line_of_a_push(values: Any) -> None:
    """As a signal handler does it: the child goes on within the push, and must not after it.

    At every line of it at the gate, and at every fifth elsewhere.
    """
    state = started().snapshot()
    expected = PIPELINE.resume(state).push(values)
    statuses = []
    at = 0
    while True:
        release = PIPELINE.resume(state)
        found: list[Any] = []
        children: list[int] = []
        parent = os.getpid()

        def push(release: tg.Release = release, found: list[Any] = found) -> None:
            found.append(release.push(values))

        def fork(children: list[int] = children) -> None:
            children.append(os.fork())

        try:
            fired = interrupted(push, at, do=fork, pure=PURE)
        except TidegateError:
            fired = True
        if os.getpid() != parent:  # the push was refused or not, but the next one must be
            leave(lambda release=release: outcome(lambda: release.push(6)))  # type: ignore[misc]
        if not fired:
            break
        statuses.append(status_of(children[0]))
        assert str(found[0]) == str(expected)
        release.push(6)
        at += depth(5, 1)
    assert len(statuses) > depth(4, 20)
    assert set(statuses) == {REFUSED}


def test_a_child_does_not_wait_for_a_thread_that_it_does_not_have() -> None:
    release = started()
    inside, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        go_on.wait(60)

    thread = threading.Thread(
        target=interrupted, args=(lambda: release.push([4, 5]), middle()), kwargs={"do": wait}
    )
    thread.start()
    assert inside.wait(60)
    try:
        assert in_child(lambda: outcome(lambda: release.push(6))) == REFUSED
    finally:
        go_on.set()
        thread.join()
    assert release.seen == 5
    release.push(6)


def test_ownership_is_made_before_the_secret_it_guards() -> None:
    """A fork in the middle of `start` must not give parent and child the same noise."""

    class Forking:
        """Forks when the epoch was just made, as a signal handler could."""

        child = -1

        def new_epoch(self) -> Any:
            epoch = tg.seeded(3).new_epoch()
            self.child = os.fork()
            return epoch

    randomness, parent = Forking(), os.getpid()
    try:
        release = PIPELINE.start(randomness)
    except TidegateError:
        release = None
    if os.getpid() != parent:
        leave(lambda: REFUSED if release is None else outcome(lambda: release.push(1)))
    assert status_of(randomness.child) == REFUSED
    assert release is not None
    release.push(1)


def test_a_handler_that_comes_back_is_refused_and_does_not_wait_for_itself() -> None:
    release = started()
    found = []

    def handler() -> None:
        with pytest.raises(TidegateError, match="under way"):
            release.push(9)
        found.append(release.seen)

    assert interrupted(lambda: release.push([4, 5]), middle(), do=handler)
    assert found
    assert release.seen == 5
    release.push(6)


def test_messages_name_the_owner_and_say_what_to_do() -> None:
    ownership = Ownership("ledger", "open it again")
    ownership.begin()
    with pytest.raises(TidegateError, match=r"this ledger was cut short.*open it again"):
        ownership.begin()
    ownership.done()
    ownership.check()
    ownership.refuse()
    with pytest.raises(TidegateError, match="cut short"):
        ownership.check()
