"""Keyed releases: who is dropped, what is promised, shared thresholds, totals, tables, state."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import tidegate as tg
from tidegate.keyed import Keyed, KeyedRelease
from tidegate.ownership import Ownership
from tidegate.run.release import Release
from tidegate.run.two_sided_caps import choose_caps
from tidegate.settings import digest

FLAT = tg.flat(epsilon=1, bound=20, holdout=30)
FIXED = tg.Pipeline(
    threshold=tg.threshold.Fixed(20),
    perturber=tg.perturb.Hierarchy(epsilon=1, horizon=64, fanout=4, skipped=1),
)


def keyed(pipeline: tg.Pipeline = FIXED, **chosen: object) -> Keyed:
    return tg.keyed(pipeline, **{"keys": ["a", "b"], **chosen})  # type: ignore[arg-type]


def test_keys_are_declared_or_said_to_be_public() -> None:
    with pytest.raises(tg.SettingError, match="a key that appears is news"):
        tg.keyed(FIXED)
    with pytest.raises(tg.SettingError, match="choose one"):
        tg.keyed(FIXED, keys=["a"], keys_are_public=True)
    with pytest.raises(tg.SettingError, match="'a' is declared twice"):
        tg.keyed(FIXED, keys=["a", "a"])
    release = tg.keyed(FIXED, keys_are_public=True).start()
    release.push(["x", 3, "y"], [1, 2, 3])
    assert release.keys == ["x", "3", "y"]
    assert release.dropped == 0


def test_undeclared_keys_are_dropped_and_shown_nowhere() -> None:
    release = keyed().start()
    rows = release.push(["a", "secret", "b", None, "a"], [1, 2, 3, 4, 5])
    assert rows.keys.tolist() == ["a", "b", "a"]
    assert rows.positions.tolist() == [0, 0, 1]
    assert release.dropped == 2
    assert release.seen == 5
    texts = (repr(release), repr(rows), repr(release.specification))
    assert not any("secret" in text for text in texts)


def test_the_guarantee_is_derived_and_says_what_is_public() -> None:
    promise = keyed(tg.tops(epsilon="0.3", bound=20, holdout=50, horizon=500)).guarantee
    assert str(promise) == "ε = 0.3 per event of any key (exact arithmetic, central model)"
    assert "no row moves to another key" in promise.neighbours
    assert promise.public.startswith("keys, how many rows each has")
    window = tg.tops(epsilon=1, bound=20, horizon=500, unit=tg.units.Window(length=5))
    assert keyed(window).guarantee.unit == "window of 5 consecutive values of any key"
    assert keyed().start(tg.seeded(1)).guarantee.simulation
    with pytest.raises(tg.SettingError, match="a user may have rows of several keys"):
        keyed(tg.tops(epsilon=1, bound=20, horizon=500, unit=tg.units.UserHorizon(most=3)))


def test_noise_of_keys_and_of_runs_is_unrelated() -> None:
    epoch = tg.secure().new_epoch()
    ids = {one.of_key(key).id for one in (epoch, tg.secure().new_epoch()) for key in ("a", "b", "")}
    secrets = {epoch.of_key(key).secret for key in ("a", "b")} | {epoch.secret}
    assert (len(ids), len(secrets)) == (6, 3)
    # The noise that two keys, or two runs, put on the same values: uncorrelated.
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(20), perturber=tg.perturb.Flat(epsilon=1), resolution=1
    )
    release, again = keyed(pipeline).start(), keyed(pipeline).start()
    keys, values = ["a", "b"] * 4000, np.full(8000, 10)
    noise = [one.push(keys, values).values - 10 for one in (release, again)]
    rows = np.stack([noise[0][::2], noise[0][1::2], noise[1][::2]])
    assert np.abs(np.corrcoef(rows) - np.eye(3)).max() < 4 / np.sqrt(4000)
    assert (rows[0] != rows[1]).mean() > 0.9


def test_a_refused_push_takes_nothing() -> None:
    release = keyed().start(tg.seeded(1))
    times = ["2024-01-01", "2024-01-02", "2024-01-03"]
    release.push(["a", "b", "a"], [1, 2, 3], times)
    before = release.snapshot()
    for keys, values, when in (
        (["a", "b"], [1, "x"], times[:2]),
        (["a"], [1, 2], times[:2]),
        (["a", "b"], [1, 2], ["2024-01-04", "2024-01-01"]),  # b goes back
        (["a", "b"], [1, 2], None),
    ):
        with pytest.raises((tg.InputError, tg.SettingError)) as caught:
            release.push(keys, values, when)
        assert "x" not in str(caught.value).split()
    assert release.snapshot() == before
    assert len(release.push(["b", "a"], [1, 2], ["2024-01-02", "2024-01-03"])) == 2


def test_a_shared_threshold_is_chosen_from_rows_of_all_keys_which_pay_for_it() -> None:
    specification = keyed(FLAT, threshold="shared")
    assert specification.guarantee.epsilon == FLAT.guarantee.epsilon
    release = specification.start(tg.seeded(4))
    keys, values = ["a", "b", "b"] * 20, np.arange(60) % 17
    first = release.push(keys[:20], values[:20])
    assert (len(first), release.holding, release.threshold) == (0, 10, None)
    release = specification.resume(release.snapshot())
    rows = release.push(keys[20:], values[20:])
    assert len(rows) == 30
    epoch = tg.seeded(4).new_epoch()
    identity = digest({**FLAT.resolved_settings, "threshold": "shared by keys"})
    units = FLAT.lattice.units(values[:30])
    ends = choose_caps(
        FLAT.threshold, units, FLAT.lattice, lambda name: epoch.keystream(name, identity)
    )
    assert release.threshold == ends.above * FLAT.lattice.step
    for key in ("a", "b"):
        alone = Release(FLAT, epoch.of_key(key), ownership=Ownership(), ends=ends)
        mine = [value for one, value in zip(keys[30:], values[30:], strict=True) if one == key]
        assert rows.of(key).values.tolist() == alone.push(np.array(mine)).tolist()
    with pytest.raises(tg.SettingError, match="Give it a hold-out"):
        keyed(tg.adaptive(epsilon=1, bound=9), threshold="shared")


def filled(specification: Keyed, days: int = 10) -> tuple[KeyedRelease, np.ndarray, np.ndarray]:
    """Two keys with a value an hour; the second begins two days later."""
    hours = np.arange(24 * days)
    keys = np.repeat(["a", "b"], [hours.size, hours.size - 48])
    ticks = np.datetime64("2024-01-01T00", "ns") + np.concatenate(
        [hours, hours[48:]]
    ) * np.timedelta64(1, "h")
    values = np.random.default_rng(0).integers(0, 20, keys.size)
    order = np.argsort(ticks, kind="stable")
    release = specification.start(tg.seeded(2))
    release.push(keys[order].tolist(), values[order], ticks[order])
    return release, keys, values


def test_totals_add_estimates_and_variances() -> None:
    release, _, _ = filled(keyed())
    both = [release.query(key=key, from_="2024-01-04", to="2024-01-06") for key in ("a", "b")]
    total = release.query(from_="2024-01-04", to="2024-01-06")
    assert total.estimate == sum(one.estimate for one in both)
    assert total.end == 96
    assert total.noise_error == pytest.approx(np.hypot(*(one.noise_error for one in both)))
    assert release.query(keys=["b"], start=0, end=48).estimate == both[1].estimate + (
        release.query(key="b", from_="2024-01-03", to="2024-01-04").estimate
        - release.query(key="b", from_="2024-01-05", to="2024-01-06").estimate
    )
    days = release.totals("1d", from_="2024-01-04", to="2024-01-06")
    assert days.answers.estimate.sum() == pytest.approx(total.estimate)


def test_intervals_of_totals_hold_what_they_say() -> None:
    inside, wide, runs = 0, 0, 400
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(20),
        perturber=tg.perturb.Hierarchy(epsilon=1, horizon=64, fanout=4, skipped=0),
    )
    values = np.arange(60) % 20
    for seed in range(runs):
        release = keyed(pipeline).start(tg.seeded(seed))
        release.push(["a", "b"] * 30, values)
        answer = release.query(start=3, end=30, confidence=0.9)
        truth = values[6:].sum()
        inside += answer.low <= truth <= answer.high
        half = (answer.high - answer.low) / 2
        wide += abs(answer.estimate - truth) <= 0.7 * half
    spread = 4 * np.sqrt(0.09 * runs)
    assert abs(inside - 0.9 * runs) < spread
    assert wide < 0.9 * runs - spread  # intervals that are 30 % narrower do not


def test_forgotten_rows_are_never_missing_silently() -> None:
    release, _, _ = filled(keyed(replace(FIXED, history=64)))
    assert release.query(from_="2024-01-10", to="2024-01-11").end == 48
    for asked in ({}, {"key": "a"}, {"from_": "2024-01-02"}, {"key": "a", "from_": "2024-01-02"}):
        with pytest.raises(tg.QueryError, match="older than the record"):
            release.query(**asked)  # type: ignore[arg-type]
    with pytest.raises(tg.QueryError, match="older than the record"):
        release.totals("1d", from_="2024-01-02")
    totals = release.totals("1d")
    assert totals.rows.tolist() == [48] * len(totals)  # whole days only, and it says so
    assert "left out" in totals.note


def test_a_table_has_the_same_days_for_every_key() -> None:
    release, _, _ = filled(keyed())
    table = release.table("1d")
    frame = table.columns()
    assert len(table) == 20
    assert frame["key"].tolist() == ["a"] * 10 + ["b"] * 10
    assert (frame["time"][:10] == frame["time"][10:]).all()
    assert table["b"].rows.tolist() == [0, 0] + [24] * 8  # type: ignore[union-attr]
    assert len(release.table(50, keys=["b"])) == 4
    with pytest.raises(tg.QueryError, match="key 'c'"):
        release.table("1d", keys=["c"])


def test_an_ended_key_leaves_a_tombstone() -> None:
    specification = keyed()
    release = specification.start()
    release.push(["a", "b"], [1, 2])
    release.end("a")
    for one in (release, specification.resume(release.snapshot())):
        with pytest.raises(tg.InputError, match="'a' has ended"):
            one.push(["b", "a"], [1, 2])
        assert len(one.push(["b"], [1])) == 1 if one is not release else True


def test_a_snapshot_belongs_to_its_settings_and_keys() -> None:
    release, seal = keyed().start(), bytes(range(32))
    release.push(["a", "b"], [1, 2])
    data = release.snapshot(seal)
    with pytest.raises(tg.SnapshotError):
        keyed().resume(data)
    with pytest.raises(tg.SnapshotError, match="other settings"):
        keyed(FLAT).resume(data, seal)
    with pytest.raises(tg.SnapshotError, match="not declared"):
        keyed(keys=["a"]).resume(data, seal)
    more = keyed(keys=["c", "a", "b"]).resume(data, seal)  # keys may be declared later
    assert more.push(["c", "a"], [1, 2]).positions.tolist() == [0, 1]
    with pytest.raises(tg.TidegateError, match="cannot be copied"):
        pickle.dumps(release)
    with pytest.raises(tg.SnapshotError):
        keyed().resume(release.snapshot()[:-3])


@pytest.mark.parametrize("library", ["numpy", "pandas", "polars", "pyarrow"])
def test_keys_come_from_any_library(library: str) -> None:
    names = ["b", "x", None, "a", "b"]
    if library == "numpy":
        column: object = np.array(names, dtype=object)
    elif library == "pandas":
        column = pytest.importorskip("pandas").Series(names)
    elif library == "polars":
        column = pytest.importorskip("polars").Series(names)
    else:
        column = pytest.importorskip("pyarrow").chunked_array([names[:2], names[2:]])
    release = keyed().start()
    assert release.push(column, [1, 2, 3, 4, 5]).keys.tolist() == ["b", "a", "b"]
    numbers = tg.keyed(FIXED, keys=range(3)).start()
    wanted = [
        np.array([2, 9, 0]),
        np.array([2.0, np.nan, 0]),
        np.array([2, 1 << 40, 0]),
        ["2", "", 0],
    ]
    for keys in wanted:
        assert numbers.push(keys, [1, 2, 3]).keys.tolist() == ["2", "0"]


def test_dictionary_columns_have_no_missing_key() -> None:
    """Public keys as a dictionary of Arrow: a missing key is one only where a row has it."""
    arrow = pytest.importorskip("pyarrow")
    pipeline = tg.adaptive(epsilon=1, bound=50, horizon=1000)
    release = tg.keyed(pipeline, keys_are_public=True).start()
    column = arrow.DictionaryArray.from_arrays(arrow.array([0, 1, 0]), arrow.array(["a", "b"]))
    assert release.push(column, [1.0, 2.0, 3.0]).keys.tolist() == ["a", "b", "a"]
    missing = arrow.DictionaryArray.from_arrays(arrow.array([0, None]), arrow.array(["a"]))
    with pytest.raises(tg.InputError, match="key at position 4 is missing"):
        release.push(missing, [1.0, 2.0])
