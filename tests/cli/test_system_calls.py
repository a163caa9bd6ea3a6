"""Every system call of a durable run fails once; the same command again completes everything.

Whatever failed, what was spent is what an undisturbed run spends, nothing uncommitted has left, and
the second run writes the bytes of the undisturbed one. SQLite makes its calls itself: full disks in
`test_committed_output` and kills in `tests/durable/test_kills.py` reach into these.
"""

import errno
import fcntl
from contextlib import suppress
from itertools import count

import pytest

from tests.depth import THOROUGH, depth, moments
from tests.faults import VALUES, Disk, Run, failing_disk
from tidegate.errors import TidegateError
from tidegate.io import KINDS

ERRORS = (errno.ENOSPC, errno.EIO, "after", errno.EINTR)
WRITES = ("torn", "short")
ROTATING = "each call by the next error"


def disturbed(undisturbed, folder, disk_of, number, how):
    """A run on a disk whose call `number` fails, and one left alone; False: no such call."""
    begun, reference = undisturbed
    run = begun.copy(folder)
    problem = None
    with failing_disk(disk_of(run, number, how)) as disk:
        try:
            run.go()
        except TidegateError as error:  # any other is a traceback, and a fault
            problem = error
    if not disk.met:
        return False
    what = f"call {number} of {disk.calls}, {how}"
    if problem is None:
        # Files that are to be removed may not be there; of what is closed, all is on the disk.
        assert disk.calls[number] in ("close", "unlink") or how == "short", what
    else:
        assert str(folder) in str(problem), what  # says where
    run.check_says_nothing_uncommitted()
    charges = reference.charges()
    assert run.charges() == charges[: len(run.charges())], what
    run.go()
    assert run.left() == reference.left(), what
    assert run.charges() == charges, what
    return True


def whole_disk(run, number, how):
    return Disk(None, number, how)


def beside_the_state(run, number, how):
    return Disk(run.folder, number, how)


@pytest.mark.parametrize("undisturbed", [("tops", "csv")], ids=" ".join, indirect=True)
@pytest.mark.parametrize("how", [*depth((ROTATING,), ERRORS), *WRITES])
def test_every_call_of_a_run_fails_in_every_way(undisturbed, shared_memory, how):
    for number in moments():
        error = ERRORS[number % len(ERRORS)] if how == ROTATING else how
        if not disturbed(undisturbed, shared_memory / str(number), whole_disk, number, error):
            break
    assert number > (10 if how in WRITES else 40)


# Calls of each format fail in some way, the next one in the next; at the gate each in every way.
TURNS = range(len(ERRORS))
DISTURBED = [
    (("tops", kind), turn)
    for number, kind in enumerate(KINDS[1:])
    for turn in depth((number % len(ERRORS),), TURNS)
]


@pytest.mark.parametrize(
    ("undisturbed", "turn"),
    [*DISTURBED, *((("adaptive", "jsonl"), turn) for turn in depth((1,), TURNS))],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
    indirect=["undisturbed"],
)
def test_every_call_for_an_output_fails_in_every_format(undisturbed, shared_memory, turn):
    """Each in another way, the next one at the next turn; and every write is torn."""
    for number in moments():
        error = ERRORS[(number + turn) % len(ERRORS)]
        if not disturbed(undisturbed, shared_memory / str(number), beside_the_state, number, error):
            break
    assert number > 15
    if THOROUGH and turn:  # once is enough
        return
    for number in count():
        folder = shared_memory / f"torn {number}"
        if not disturbed(undisturbed, folder, beside_the_state, number, "torn"):
            break
    assert number > 1


def test_every_call_of_a_beginning_fails(shared_memory):
    """From a folder that is not there to the first value: begun again, nothing is spent twice."""
    number, names = 0, set()
    while True:
        run = Run(shared_memory / str(number), "tops", "csv")
        run.folder.mkdir()
        disk = Disk(None, number, ERRORS[number % 2])
        with failing_disk(disk), suppress(TidegateError):
            run.begin()
        names.update(disk.calls)
        run.go(VALUES[:1000])
        assert run.metadata()["released"] == 100
        assert [charge[2:5] for charge in run.charges()] == [
            ("threshold", 0, 900),
            ("stream", 900, None),
        ]
        if not disk.met:
            break
        number += 1
    assert number > 10
    assert names >= {"mkdir", "open", "write", "fsync", "close"}


@pytest.mark.parametrize("undisturbed", [("tops", "csv")], ids=" ".join, indirect=True)
def test_locks_that_cannot_be_had(undisturbed, shared_memory, monkeypatch):
    """A file system without locks is told apart from another process at work."""
    begun, reference = undisturbed
    for failing, (number, words) in enumerate(
        [(errno.ENOLCK, "No locks"), (errno.EIO, "error"), (errno.EAGAIN, "another")] * 2
    ):
        run = begun.copy(shared_memory / str(failing))
        flock, calls = fcntl.flock, []

        def locked(descriptor, how, at=failing // 3, number=number, real=flock, calls=calls):
            calls.append(descriptor)
            if len(calls) == at + 1:
                raise OSError(number, "No locks available" if number == errno.ENOLCK else "error")
            real(descriptor, how)

        with monkeypatch.context() as patch:
            patch.setattr(fcntl, "flock", locked)
            with pytest.raises(TidegateError, match=words):
                run.go()
        run.go()
        assert run.left() == reference.left()
