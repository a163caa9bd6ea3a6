"""The order of every step, what interruptions leave behind, caps, and epochs."""

import os
import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tests.depth import depth, in_turn
from tidegate.durable import DurableRelease, StateError, StorageError
from tidegate.durable.commit import Committer
from tidegate.durable.input_digests import InputDigests
from tidegate.durable.state_stores import FolderStore
from tidegate.errors import InputError, SettingError, TidegateError
from tidegate.ledger import CapExceeded, Ledger
from tidegate.run.release import Release
from tidegate.threshold import Fixed
from tidegate.units import UserHorizon

SMALL = {"epsilon": 1, "bound": 100, "resolution": 1, "holdout": 20}
PIPELINE = tg.tops(**SMALL, horizon=256, fanout=4, skipped=1)
USERS = tg.tops(
    epsilon=1, bound=100, resolution=1, holdout=20, horizon=64, unit=UserHorizon(most=3)
)
VALUES = np.random.default_rng(1).integers(0, 100, 3000)


def total(folder):
    ledger = Ledger.open(folder / "ledger.jsonl", read_only=True)
    try:
        return ledger.total().epsilon
    finally:
        ledger.close()


def _full(*given):
    raise StorageError("the disk is full")


def test_charge_then_release_then_commit(tmp_path, monkeypatch):
    events = []

    def spy(owner, name):
        original = getattr(owner, name)

        def spied(*given, **named):
            result = original(*given, **named)
            events.append(name)
            return result

        monkeypatch.setattr(owner, name, spied)

    with DurableRelease.open(tmp_path / "s", PIPELINE) as run:
        for owner, name in (
            (os, "fsync"),
            (Ledger, "charge"),
            (Release, "push_rows"),
            (FolderStore, "commit"),
        ):
            spy(owner, name)
        run.push(VALUES[:30])
        assert [name for name in events if name != "fsync"] == [
            "charge",
            "charge",
            "push_rows",
            "commit",
        ]
        assert events.index("fsync") < events.index("charge")  # on the disk before it counts
        events.clear()
        run.push(VALUES[:30])
        assert events == ["push_rows", "commit"]


def test_the_identity_of_the_noise_is_stored_before_any_value(tmp_path):
    with DurableRelease.open(tmp_path / "s", PIPELINE) as run:
        epoch = run.epoch
    with DurableRelease.open(tmp_path / "s", PIPELINE) as run:
        assert run.epoch == epoch
        assert run.seen == 0


def interrupted(run, monkeypatch, owner, name, error, after=False):
    original = getattr(owner, name)

    def stop(*given, **named):
        monkeypatch.setattr(owner, name, original)
        if after:
            original(*given, **named)
        raise error

    monkeypatch.setattr(owner, name, stop)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("held", [0, 7, 20, 40])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (FolderStore, "commit"),
        (Committer, "_state"),
        (Release, "push_rows"),
        (Release, "journal_entries"),
        (Ledger, "charge"),
        (InputDigests, "push"),
    ],
)
def test_an_interruption_anywhere_loses_and_doubles_nothing(
    tmp_path, monkeypatch, owner, name, held, after
):
    folder = tmp_path / "s"
    published = [np.empty(0)]
    try:
        with DurableRelease.open(folder, PIPELINE) as run:
            published.append(run.push(VALUES[:held])[1])
            interrupted(run, monkeypatch, owner, name, KeyboardInterrupt, after)
            published.append(run.push(VALUES[held : held + 60])[1])
    except (KeyboardInterrupt, TidegateError):
        pass
    with DurableRelease.open(folder, PIPELINE) as run:
        assert run.recogniser().left == run.seen  # what is remembered is what was taken
        recogniser = run.recogniser()
        assert recogniser.push(run.pipeline.lattice.units(VALUES[: run.seen]))
        again = run.replay()
        wanted = np.concatenate(published)
        values = np.concatenate([np.empty(0), *(piece for _, piece in again)])
        assert values[: wanted.size].tobytes() == wanted.tobytes()
        assert values.size == run.position == max(0, run.seen - 20)
        run.push(VALUES[run.seen : 500])
        assert run.seen == 500
        assert sum(piece.size for _, piece in run.replay()) == 480


def test_a_full_disk_is_told_and_harms_nothing(tmp_path):
    published = []
    with DurableRelease.open(tmp_path / "s", PIPELINE) as run:
        published.append(run.push(VALUES[:100])[1])
        pages = run._store.database.execute("PRAGMA page_count").fetchone()[0]
        run._store.database.execute(f"PRAGMA max_page_count={pages + 2}")
        rest = range(100, 3000, 100)
        with pytest.raises(TidegateError, match="full"):
            published.extend(run.push(VALUES[start : start + 100])[1] for start in rest)
    with DurableRelease.open(tmp_path / "s", PIPELINE) as run:
        replayed = np.concatenate([piece for _, piece in run.replay()])
        assert replayed.tobytes() == np.concatenate(published).tobytes()
        run.push(VALUES[run.seen :])
        assert run.position == 2980


def test_after_an_interruption_nothing_more_is_released(tmp_path, monkeypatch):
    with DurableRelease.open(tmp_path / "s", PIPELINE) as run:
        run.push(VALUES[:50])
        interrupted(run, monkeypatch, FolderStore, "commit", KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            run.push(VALUES[50:60])
        with pytest.raises(StateError, match="cut short"):
            run.push(VALUES[50:60])


def test_a_cap_reached_in_the_middle_releases_what_comes_before(tmp_path):
    pipeline = tg.tops(
        epsilon=1, bound=100, resolution=1,
        holdout=20, horizon=256, skipped=0, rethreshold_every=100,
        rethreshold_share="1/2",
    )  # fmt: skip
    with DurableRelease.open(tmp_path / "s", pipeline, cap=1, source="meters") as run:
        run._ledger.charge(
            source="meters", epoch="an older one", stage="stream", start=305, end=315,
            guarantee=tg.Guarantee(epsilon=Fraction(1, 4)),
        )  # fmt: skip
        # Stream 1/2 everywhere, selections 1/2 in [100·k, 100·k + 20): the third meets 1/4 more.
        first, values = run.push(VALUES)
        assert (first, values.size, run.seen) == (0, 280, 300)
        with pytest.raises(CapExceeded, match="meters"):
            run.push(VALUES[300:])
        assert run.seen == 300
    assert total(tmp_path / "s") == 1


def test_a_cap_below_the_cost_releases_nothing(tmp_path):
    with DurableRelease.open(tmp_path / "s", PIPELINE, cap="0.5") as run:
        with pytest.raises(CapExceeded):
            run.push(VALUES)
        assert (run.seen, run.position) == (0, 0)
    assert total(tmp_path / "s") == 0


def test_a_new_epoch_is_charged_on_top(tmp_path):
    folder = tmp_path / "s"
    with DurableRelease.open(folder, PIPELINE) as run:
        before = run.push(VALUES)[1]
        epoch = run.epoch
    assert total(folder) == 1
    with DurableRelease.open(folder, PIPELINE, new_epoch=True) as run:
        assert (run.seen, run.position) == (0, 0)
        assert run.epoch != epoch
        after = run.push(VALUES)[1]
    assert total(folder) == 2
    assert (before != after).mean() > 0.5  # other noise


def test_a_new_epoch_that_the_cap_forbids_leaves_the_state_alone(tmp_path):
    folder = tmp_path / "s"
    with DurableRelease.open(folder, PIPELINE, cap=1) as run:
        run.push(VALUES)
    with pytest.raises(CapExceeded):
        DurableRelease.open(folder, PIPELINE, new_epoch=True)
    with DurableRelease.open(folder, PIPELINE) as run:
        assert run.position == 2980
    assert total(folder) == 1


def test_another_name_does_not_escape_the_cap(tmp_path):
    with DurableRelease.open(tmp_path / "s", PIPELINE, cap=1) as run:
        run.push(VALUES)
    (tmp_path / "s").rename(tmp_path / "moved")
    with pytest.raises(CapExceeded):
        DurableRelease.open(tmp_path / "moved", PIPELINE, new_epoch=True)
    for new_epoch in (False, True):
        with pytest.raises(StateError, match="source"):
            DurableRelease.open(tmp_path / "moved", PIPELINE, new_epoch=new_epoch, source="other")
    with DurableRelease.open(tmp_path / "moved", PIPELINE) as run:
        assert run.source == "s"


def test_users_must_fit_the_values(tmp_path):
    with DurableRelease.open(tmp_path / "s", USERS) as run:
        for users in (["alice-4711"] * 3, ["alice-4711"] * 5, None):
            with pytest.raises(InputError) as error:
                run.push(VALUES[:4], users)
            assert "alice" not in str(error.value)
        run.push(VALUES[:4], ["alice-4711"] * 4)
        assert run.seen == 4


@pytest.mark.parametrize("name", ["$int", "$bytes", "$array", "$float", "$$int", "", "é"])
def test_users_may_have_any_name(tmp_path, name):
    users = [name, "b"] * 40
    with DurableRelease.open(tmp_path / "s", USERS) as run:
        first = run.push(VALUES[:80], users)[1]
    with DurableRelease.open(tmp_path / "s", USERS) as run:
        assert run.recogniser().push(run.pipeline.lattice.units(VALUES[:80]), users)
        named = {name: 3} if name else {}  # an empty name is nobody's
        assert run._release._cap.counts == {**named, "b": 3}
        second = run.push(VALUES[80:160], users)[1]
    assert (first.size, second.size) == (60, 80)


def test_a_refused_user_leaves_a_durable_release_usable_and_is_not_shown(tmp_path):
    with DurableRelease.open(tmp_path / "s", USERS) as run:
        with pytest.raises(InputError, match="user at position 1 ") as error:
            run.push(VALUES[:2], ["a", "secret\ud800"])
        assert "secret" not in str(error.value)
        assert run.seen == 0
        run.push(VALUES[:2], ["a", "b"])
        with pytest.raises(InputError, match="user at position 3 "):
            run.push(VALUES[2:4], [b"a", True])
        assert run._release.user_cap.counts == {"a": 1, "b": 1}


STOPPED = {
    "tops": PIPELINE,
    "again": tg.tops(**SMALL, horizon=256, fanout=4, skipped=1, rethreshold_every=90),
    "adaptive": tg.adaptive(**SMALL, horizon=150),
}


@pytest.mark.parametrize("name", in_turn(STOPPED, 0))
def test_how_often_it_was_stopped_does_not_show(tmp_path, name):
    """The same epoch, in one go and value by value with a restart after each: the same bits.

    By hand after every other value.
    """
    pipeline = STOPPED[name]
    DurableRelease.open(tmp_path / "a", pipeline, source="s").close()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with DurableRelease.open(tmp_path / "a", pipeline) as run:
        whole = run.push(VALUES[:220])[1]
    pieces, few = [], depth(2, 1)
    for at in range(0, 220, few):
        with DurableRelease.open(tmp_path / "b", pipeline) as run:
            pieces += [run.push([value])[1] for value in VALUES[at : at + few]]
    assert np.concatenate(pieces).tobytes() == whole.tobytes()


def test_facts_are_public_and_enough(tmp_path):
    with DurableRelease.open(tmp_path / "s", PIPELINE) as run:
        run.push(VALUES)
        facts = run.facts()
        secret = run._release._epoch.secret.hex()
    assert facts["released"] == 2980
    assert facts["phases"][0]["epoch"] == run.epoch
    assert tg.Pipeline.from_settings(facts["settings"]) == PIPELINE
    assert secret not in str(facts)


@pytest.mark.parametrize(
    "stages",
    [
        {"perturber": tg.perturb.Hierarchy(epsilon=1, horizon=2**20, fanout=16, skipped=0)},
        {
            "perturber": tg.perturb.AdaptiveTrees(epsilon=1, horizon=2**18, nodes=[1, 16, 128]),
            "estimator": tg.estimate.Mixture(),
        },
    ],
    ids=["hierarchy", "adaptive"],
)
def test_what_a_commit_writes_does_not_grow_with_the_stream(stages):
    """After millions of values one more must still be answered at once: brief state is brief."""
    pipeline = tg.Pipeline(threshold=tg.threshold.Fixed(50), **stages)
    release = pipeline.start()
    release.push(np.zeros(3_000_000))
    assert len(release.snapshot(brief=True)) < 100_000


def test_a_new_epoch_that_reads_nothing_costs_nothing(tmp_path):
    with DurableRelease.open(tmp_path / "s", PIPELINE, cap=2) as run:
        run.push(VALUES)
    for _ in range(2):
        DurableRelease.open(tmp_path / "s", PIPELINE, new_epoch=True).close()
    assert total(tmp_path / "s") == 1
    with DurableRelease.open(tmp_path / "s", PIPELINE) as run:
        run.push(VALUES)
    assert total(tmp_path / "s") == 2


def test_a_threshold_that_was_chosen_again_but_not_committed_is_not_told(tmp_path, monkeypatch):
    """No hold-out, so that no phase is committed yet when the first choice from data is made."""
    chosen = tg.tops(epsilon=1, bound=100, resolution=1, holdout=20, horizon=64)
    again = tg.Reselection(threshold=chosen.threshold, every=64)
    pipeline = replace(chosen, threshold=Fixed(100), reselect=again)
    with DurableRelease.open(tmp_path / "s", pipeline) as run:
        with monkeypatch.context() as patch:
            patch.setattr(FolderStore, "commit", _full)
            with pytest.raises(StorageError):
                run.push(np.full(100, 3))
        assert run._release.threshold < 100  # the choice was made
        assert run.threshold == 100
        assert run.facts()["threshold"] is None


def test_a_change_of_the_working_directory_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with DurableRelease.open("s", PIPELINE) as run:
        run.push(VALUES[:10])
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")
        run.push(VALUES[10:100])  # charges the stream
    assert total(tmp_path / "s") == 1
    assert not [*(tmp_path / "elsewhere").iterdir()]


@pytest.mark.parametrize("name", ["a\tb", "s\udcff"], ids=["a tab", "bytes that are no text"])
def test_a_source_that_no_ledger_can_name_is_refused_before_anything_begins(tmp_path, name):
    with pytest.raises(SettingError, match="--ledger-source"):
        DurableRelease.open(tmp_path / name, PIPELINE)
    with pytest.raises(SettingError, match="--ledger-source"):
        DurableRelease.open(tmp_path / "s", PIPELINE, source=name)
    with DurableRelease.open(tmp_path / name, PIPELINE, source="meters") as run:
        run.push(VALUES)


def test_a_new_epoch_where_nothing_was_begun(tmp_path):
    with pytest.raises(SettingError, match="cap"):
        DurableRelease.open(tmp_path / "s", PIPELINE, cap="nothing")
    with DurableRelease.open(tmp_path / "s", PIPELINE, new_epoch=True) as run:
        run.push(VALUES)
    assert total(tmp_path / "s") == 1


def test_a_push_longer_than_the_history_forgets_no_phase(tmp_path):
    """Else metadata lacks thresholds, the past cannot be asked, the output is not recognised."""
    again = tg.tops(
        epsilon=1, bound=100, resolution=1, holdout=20, horizon=16, rethreshold_every=64,
        rethreshold_share="1/4",
    )  # fmt: skip
    with DurableRelease.open(tmp_path / "s", replace(again, history=64)) as run:
        run.push(VALUES[:600])
        starts = [phase.start for phase in run.phases]
        assert len(starts) > 5
        assert np.unique(np.diff(starts)).size == 1
        assert run.phases[0].epoch == run.facts()["phases"][0]["epoch"] == run.epoch
        run.query(0, 500)
    with DurableRelease.open(tmp_path / "s", replace(again, history=64)) as run:
        run.push(VALUES[600:1200])
        assert np.unique(np.diff([phase.start for phase in run.phases])).size == 1
        run.query(0, 1100)
