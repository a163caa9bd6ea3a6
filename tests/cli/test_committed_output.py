"""What leaves a durable run was committed, and an output can always be completed."""

import os
import signal
from contextlib import suppress

import pytest

from tests.depth import in_turn
from tests.faults import no_file_above
from tidegate.durable.state_stores import FolderStore
from tidegate.errors import TidegateError
from tidegate.io import KINDS

CASES = [("tops", kind) for kind in KINDS] + [("adaptive", "csv"), ("adaptive", "parquet")]
MOST_COMMITS = 20


def check_completes(run, reference):
    run.go()
    assert run.left() == reference.left()
    assert run.charges() == reference.charges()


@pytest.mark.parametrize(
    ("undisturbed", "moment"),
    [
        *((case, "before") for case in in_turn(CASES, 0)),
        *((case, "after") for case in in_turn(CASES[:2] + CASES[-2:], 1)),
    ],
    indirect=["undisturbed"],
    ids=str,
)
def test_a_signal_at_a_commit(undisturbed, shared_memory, monkeypatch, capsys, moment):
    """SIGTERM just before each commit, and just after it, when memory lags behind the disk."""
    begun, reference = undisturbed
    commit = FolderStore.commit
    for number in range(1, MOST_COMMITS):
        run = begun.copy(shared_memory / str(number))
        calls = 0

        def signalled(self, *given, at=number):
            nonlocal calls
            calls += 1
            if calls == at and moment == "before":
                os.kill(os.getpid(), signal.SIGTERM)
            commit(self, *given)
            if calls == at and moment == "after":
                os.kill(os.getpid(), signal.SIGTERM)

        with monkeypatch.context() as patch:
            patch.setattr(FolderStore, "commit", signalled)
            with suppress(KeyboardInterrupt):
                run.go()
        assert capsys.readouterr().err == ""  # no talk of damage: there is none
        run.check_says_nothing_uncommitted()
        check_completes(run, reference)
        if calls < number:
            break
    assert 3 < number < MOST_COMMITS - 1  # each of its three commits was met


@pytest.mark.parametrize("undisturbed", in_turn(CASES, 1), ids=" ".join, indirect=True)
def test_a_full_disk_wherever_it_is_met(undisturbed, shared_memory):
    """The state is the largest file: it is full first, before a commit; with less, all else is."""
    begun, reference = undisturbed
    failed = 0
    for size in (4_000, 30_000, 50_000, 70_000, 100_000, 140_000):
        run = begun.copy(shared_memory / str(size))
        with no_file_above(size):
            try:
                run.go()
            except TidegateError:
                failed += 1
        run.check_says_nothing_uncommitted()
        check_completes(run, reference)
    assert failed > 2
