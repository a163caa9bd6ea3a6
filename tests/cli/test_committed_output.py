"""What leaves a durable run was committed, and an output can always be completed."""

import os
import signal
from contextlib import suppress

import pytest

from tests.faults import Run, no_file_above
from tidegate.durable.store import Store
from tidegate.errors import TidegateError
from tidegate.io import KINDS

CASES = [("tops", kind) for kind in KINDS] + [("adaptive", "csv"), ("adaptive", "parquet")]
MOST_COMMITS = 20


@pytest.fixture(scope="module", params=CASES, ids=" ".join)
def undisturbed(request, tmp_path_factory):
    """A state that was begun, and what an undisturbed run makes of it."""
    pipeline, kind = request.param
    begun = Run(tmp_path_factory.mktemp("begun") / "run", pipeline, kind)
    begun.folder.mkdir()
    begun.begin()
    reference = begun.copy(begun.folder.with_name("reference"))
    reference.go()
    return begun, reference


def check_says_nothing_uncommitted(run):
    facts = run.metadata()
    if facts is None:
        return
    released, phases = run.committed()
    assert facts["released"] <= released
    assert facts["phases"] == phases[: len(facts["phases"])]
    thresholds = [phase["threshold"] for phase in phases]
    assert facts["threshold"] in [None, *thresholds]


def check_completes(run, reference):
    run.go()
    assert run.left() == reference.left()
    assert run.charges() == reference.charges()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_signal_at_a_commit(undisturbed, tmp_path, monkeypatch, moment):
    """SIGTERM just before each commit, and just after it, when memory lags behind the disk."""
    begun, reference = undisturbed
    commit = Store.commit
    for number in range(1, MOST_COMMITS):
        run = begun.copy(tmp_path / str(number))
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
            patch.setattr(Store, "commit", signalled)
            with suppress(KeyboardInterrupt):
                run.go()
        check_says_nothing_uncommitted(run)
        check_completes(run, reference)
        if calls < number:
            break
    assert 5 < number < MOST_COMMITS - 1


def test_a_full_disk_wherever_it_is_met(undisturbed, tmp_path):
    """The state is the largest file: it is full first, before a commit; with less, all else is."""
    begun, reference = undisturbed
    failed = 0
    for step in range(14):
        run = begun.copy(tmp_path / str(step))
        with no_file_above(2000 + 12_000 * step):
            try:
                run.go()
            except TidegateError:
                failed += 1
        check_says_nothing_uncommitted(run)
        check_completes(run, reference)
    assert failed > 5
