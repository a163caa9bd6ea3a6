"""Killed or interrupted at any line: nothing lost, nothing doubled, nothing secret left behind."""

import shutil
from contextlib import suppress

import numpy as np
import pytest

import tidegate as tg
from tests.depth import depth
from tests.durable.moments import interruptions, kills, scratch
from tidegate.durable import DurableRelease, StateError
from tidegate.ledger import Ledger
from tidegate.units import UserHorizon

PIPELINE = tg.tops(
    epsilon=1, bound=100, resolution=1,
        holdout=6, horizon=32, fanout=4, skipped=1, rethreshold_every=12,
    rethreshold_share="1/2",
)  # fmt: skip
USERS = tg.tops(
    epsilon=1, bound=100, resolution=1, holdout=6, horizon=8, skipped=0, unit=UserHorizon(most=2)
)
REFINED = tg.adaptive(epsilon=1, bound=100, resolution=1, horizon=32)
VALUES = np.random.default_rng(5).integers(0, 100, 40)
NAMES = [f"user {number % 5}" for number in range(40)]
# An exception between the opening of a file and the assignment leaves it to the collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
# Where something changes: what lies between only computes.
PLACES = (
    "durable/durable_release", "durable/commit", "durable/state_stores", "durable/charging",
    "durable/folder_lock", "durable/user_counts_log", "ledger/ledger", "ledger/ledger_file",
    "_atomic_files",
)  # fmt: skip
OLD, NEW = bytes(range(32)), bytes(range(1, 33))


def pushed(run, end, users):
    at = run.seen
    return run.push(VALUES[at:end], NAMES[at:end] if users else None)


def released(run):
    return np.concatenate([np.empty(0), *(values for _, values in run.replay())])


def charges(folder):
    with Ledger.open(folder / "ledger.jsonl", read_only=True) as ledger:
        return [(one.epoch, one.stage, one.start, one.end) for one in ledger.charges()]


def total(folder):
    with Ledger.open(folder / "ledger.jsonl", read_only=True) as ledger:
        return ledger.total().epsilon


def shows(folder, secret):
    """Whether a part of the secret is in any file: rows are cut into pages, and hold hex of hex."""
    text = b"".join(path.read_bytes() for path in folder.iterdir())
    once = secret.hex().encode()
    return any(
        form[start : start + 16] in text
        for form in (secret, once, once.hex().encode())
        for start in range(0, len(form) - 15, 8)
    )


@pytest.fixture
def place():
    with scratch() as folder:
        yield folder


def begun(folder, pipeline, count=0, key=None):
    """A state that has taken some values; its secret, and what a run without trouble releases."""
    users = pipeline is USERS
    with DurableRelease.open(folder, pipeline, key=key, source="meters") as run:
        pushed(run, count, users)
        secret = run._release._epoch.secret
    undisturbed = folder.with_name("undisturbed")
    shutil.copytree(folder, undisturbed)
    with DurableRelease.open(undisturbed, pipeline, key=key) as run:
        pushed(run, 40, users)
        wanted = released(run)
    return secret, wanted, charges(undisturbed)


@pytest.mark.parametrize(
    "pipeline", [PIPELINE, USERS, REFINED], ids=["chosen again", "users", "warm-up released"]
)
def test_a_run_of_pushes_that_is_killed(place, pipeline):
    """Open, three pushes (into, out of and after the hold-out), close: at every line of it."""
    users = pipeline is USERS
    _, wanted, costs = begun(place / "base", pipeline)

    def act(folder, out):
        with DurableRelease.open(folder, pipeline) as run:
            out.extend(pushed(run, end, users) for end in (4, 15, 30))

    def look(folder, out):
        with DurableRelease.open(folder, pipeline) as run:
            left = np.concatenate([np.empty(0), *(values for _, values in out)])
            found = released(run)
            assert found.size == run.position == max(0, run.seen - pipeline.holdout)
            assert found[: left.size].tobytes() == left.tobytes()
            units = run.pipeline.lattice.units(VALUES[: run.seen])
            assert run.recogniser().push(units, NAMES[: run.seen] if users else None)
            pushed(run, 40, users)
            assert released(run).tobytes() == wanted.tobytes()
        assert charges(folder) == costs  # none left out, none twice

    lines, folders = kills(place / "base", act, look)
    assert lines > 2000
    assert folders > 10


def test_a_push_that_is_interrupted_is_refused_until_the_state_is_opened_again(place):
    """At every line of a push: a retry on the same object would count the values twice."""
    _, wanted, costs = begun(place / "base", PIPELINE, 4)
    refused = []

    def act(folder, out):
        run = DurableRelease.open(folder, PIPELINE)  # traced too, since it is one call for Python
        out.append(run)
        out.append(run.push(VALUES[4:20]))

    def look(folder, out):
        with DurableRelease.open(folder, PIPELINE) as run:
            pushed(run, 40, users=False)
            assert released(run).tobytes() == wanted.tobytes()
        assert charges(folder) == costs

    def after(out):
        if not out:
            return
        run = out[0]
        public = run.seen, run.position, len(run.phases), run.facts()["released"]
        assert public in [(4, 0, 0, 0), (4, 14, 2, 14), (20, 14, 2, 14)]  # what was committed
        assert released(run).size == run.position
        try:
            run.push(VALUES[4:20])
            assert public == (4, 0, 0, 0)  # nothing had been begun
        except StateError as error:
            refused.append("cut short" in str(error))
            with pytest.raises(StateError, match="cut short"):
                run.change_key(NEW)
        run.close()

    lines, folders = interruptions(place / "base", act, look, PLACES, after)
    assert all(refused)
    assert depth(65, 200) < len(refused) < lines
    assert folders > 2


def test_the_first_opening(place):
    """Nothing was released: whatever is left must be continued, without a new epoch."""
    (place / "base").mkdir()

    def act(folder, out):
        DurableRelease.open(folder, PIPELINE, source="meters", cap=2).close()

    def look(folder, out):
        with DurableRelease.open(folder, PIPELINE, source="meters", cap=2) as run:
            assert (run.seen, run.position) == (0, 0)
            pushed(run, 40, users=False)
        assert total(folder) == 1

    assert min(kills(place / "base", act, look)) > 5
    assert min(interruptions(place / "base", act, look, PLACES)) > 5


def test_another_key(place):
    """The old key opens it or the new one; once it is the new one, the old opens nothing."""
    _, wanted, costs = begun(place / "base", USERS, 3, OLD)
    found = []

    def act(folder, out):
        with DurableRelease.open(folder, USERS, key=OLD) as run:
            pushed(run, 20, users=True)
            run.change_key(NEW)

    def look(folder, out):
        for key in (OLD, NEW):
            with suppress(StateError), DurableRelease.open(folder, USERS, key=key) as run:
                pushed(run, 40, users=True)
                assert released(run).tobytes() == wanted.tobytes()
                found.append(key)
                break
        else:
            pytest.fail("neither key opens it")
        assert charges(folder) == costs

    kills(place / "base", act, look)
    assert {OLD, NEW} == set(found)
    found.clear()
    interruptions(place / "base", act, look, ("durable/commit", "durable/state_stores"))
    assert {OLD, NEW} == set(found)


def test_a_key_for_what_was_not_sealed_leaves_no_copy_of_the_secret(place):
    secret, _, _ = begun(place / "base", PIPELINE, 20)
    assert shows(place / "base", secret)
    sealed = []

    def act(folder, out):
        with DurableRelease.open(folder, PIPELINE) as run:
            run.change_key(NEW)

    def look(folder, out):
        with suppress(StateError), DurableRelease.open(folder, PIPELINE, key=NEW):
            sealed.append(shows(folder, secret))  # opening has completed what was begun

    kills(place / "base", act, look)
    interruptions(place / "base", act, look, ("durable/state_stores",))
    assert len(sealed) > 2
    assert not any(sealed)


def test_erasure(place):
    """Erased or not; and what was erased is gone once anybody has looked at the state."""
    secret, wanted, _ = begun(place / "base", PIPELINE, 20)
    erased = []

    def act(folder, out):
        with DurableRelease.open(folder, PIPELINE) as run:
            run.erase()

    def look(folder, out):
        try:
            with DurableRelease.open(folder, PIPELINE) as run:
                pushed(run, 40, users=False)
                assert released(run).tobytes() == wanted.tobytes()
        except StateError as error:
            erased.append(("erased" in str(error), shows(folder, secret)))

    kills(place / "base", act, look)
    interruptions(place / "base", act, look, ("durable/state_stores",))
    assert len(erased) > 2
    assert set(erased) == {(True, False)}


@pytest.mark.parametrize("damaged", [False, True], ids=["readable", "damaged"])
def test_a_new_epoch(place, damaged):
    """The old state, or a new one that is charged once; nothing secret of the old one stays."""
    secret, wanted, _ = begun(place / "base", PIPELINE, 20)
    if damaged:
        path = place / "base" / "state.sqlite"
        path.write_bytes(bytes(4096) + path.read_bytes()[4096:])
    kinds = []

    def act(folder, out):
        DurableRelease.open(folder, PIPELINE, new_epoch=True).close()

    def look(folder, out):
        try:
            run = DurableRelease.open(folder, PIPELINE)
        except StateError as error:
            kinds.append("damaged" if "damaged" in str(error) else "lost")
            run = DurableRelease.open(folder, PIPELINE, new_epoch=True)
        with run:
            if run.seen:
                kinds.append("old")
                pushed(run, 40, users=False)
                assert released(run).tobytes() == wanted.tobytes()
                return
            kinds.append("new")
            assert not shows(folder, secret)
            pushed(run, 40, users=False)
        assert total(folder) == 2  # not 3, whenever it stopped
        assert len({*charges(folder)}) == len(charges(folder))

    kills(place / "base", act, look)
    assert set(kinds) == ({"new", "damaged", "lost"} if damaged else {"new", "old"})
    kinds.clear()
    interruptions(
        place / "base",
        act,
        look,
        ("durable/durable_release", "durable/state_stores", "durable/commit"),
    )
    assert {"new", "damaged" if damaged else "old"} <= set(kinds)
