"""Law of keys: each key gets, bit for bit, what a release of its rows alone would give it.

Whatever the order of rows of different keys, and however they are split into pushes; with a stop in
the middle (laws 1 and 2 for keys).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.depth import depth, in_turn
from tests.laws.catalogue import bits, inputs, names_of_law, pipelines
from tidegate.estimate.mixture.outgrown_cap import CapWatch
from tidegate.keyed import keyed_release as keyed_release
from tidegate.keyed import mixture_of_many_thresholds, refined_columns
from tidegate.keyed.mixture_of_many_thresholds import (
    MixtureOfManyThresholds,
)
from tidegate.keyed.object_engine import ObjectEngine
from tidegate.keyed.refined_choices import RefinedChoices
from tidegate.ownership import Ownership
from tidegate.run.refinement_run import RefinementRun
from tidegate.run.refinement_schedule import Refinement
from tidegate.run.release import Release
from tidegate.units import UserHorizon

NAMES = ("north", "7")
MOST = 260  # rows of a key: more than every hold-out, and four horizons of most pipelines


def names() -> list[str]:
    """Of pipelines that keys can have."""
    return [one for one in names_of_law(3) if not isinstance(pipelines()[one].unit, UserHorizon)]


def rows_of(pipeline: tg.Pipeline, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys and values in a random order."""
    values = np.concatenate([inputs(pipeline, seed=at)[:MOST] for at in range(len(NAMES))])
    keys = np.repeat(NAMES, [values.size - values.size // 2, values.size // 2])
    order = np.random.default_rng(seed).permutation(values.size)
    # Rows of a key stay in their order.
    shuffled = np.empty_like(values)
    for name in NAMES:
        shuffled[keys[order] == name] = values[keys == name]
    return keys[order], shuffled


def pieces_of(part: np.ndarray, number: int) -> list[np.ndarray]:
    """The third part row by row, and elsewhere than at the gate its last rows so."""
    if number != 2:
        return [part]
    last = depth(min(part.size, 30), part.size)
    return [part[: part.size - last], *np.array_split(part[part.size - last :], max(1, last))]


@pytest.mark.parametrize("name", names())
def test_a_key_is_a_release_of_its_own(name: str) -> None:
    pipeline = pipelines()[name]
    specification = tg.keyed(pipeline, keys=NAMES)
    release = specification.start(tg.seeded(5))
    keys, values = rows_of(pipeline, seed=1)
    cuts = np.sort(np.random.default_rng(2).integers(0, values.size, size=3))
    found: dict[str, list[np.ndarray]] = {key: [] for key in NAMES}
    for number, (some, part) in enumerate(
        zip(np.split(keys, cuts), np.split(values, cuts), strict=True)
    ):
        for each, numbers in zip(pieces_of(some, number), pieces_of(part, number), strict=True):
            rows = release.push(each.tolist(), numbers)
            for key in NAMES:
                mine = rows.of(key)
                found[key].append(np.stack([mine.positions, mine.values, mine.levels]))
        if number == 1:
            release = specification.resume(release.snapshot(brief=True))
    epoch = tg.seeded(5).new_epoch()
    for key in NAMES:
        alone = Release(pipeline, epoch.of_key(key), ownership=Ownership())
        expected = alone.push_rows(values[keys == key])
        positions, out, levels = np.concatenate(found[key], axis=1)
        assert bits(positions) == bits(np.arange(expected.values.size))
        assert bits(out) == bits(expected.values)
        assert bits(levels) == bits(expected.levels)


def test_ticks_of_the_default_are_what_many_rows_give() -> None:
    """Warm-ups, windows and caps that fill, one row of each key at a time."""
    random = np.random.default_rng(2)
    values = random.gamma(2, 3, (1000, 2))
    values[400:] *= 20
    specification = tg.keyed(tg.adaptive(2, 1000, horizon=600), keys=NAMES)
    ticks, bulk = (specification.start(tg.seeded(3)) for _ in range(2))
    found = [ticks.push(NAMES, one) for one in values]
    expected = bulk.push(np.tile(NAMES, len(values)).tolist(), values.reshape(-1))
    for column in ("codes", "positions", "values", "levels"):
        assert bits(np.concatenate([getattr(rows, column) for rows in found])) == bits(
            getattr(expected, column)
        )
    assert all(len(phases) > 1 for _, _, phases in ticks.released_keys())
    assert ticks.snapshot() == bulk.snapshot()


GEOMETRIES: dict[str, dict[str, object]] = {
    "one level": {"horizon": 64, "fanout": 4, "skipped": 1},
    "two levels, a horizon that ends inside a tree": {"horizon": 58, "fanout": 4, "skipped": 1},
    "three levels": {"horizon": 64, "fanout": 2, "skipped": 2, "levels": 3},
    "shares": {"horizon": 50, "fanout": 2, "skipped": 1, "shares": [3, 1, "1/2"]},
    "not consistent": {"horizon": 60, "fanout": 3, "skipped": 1, "consistent": False},
    "several groves": {"horizon": 9001, "fanout": 2, "skipped": 1, "levels": 4},
}


@pytest.mark.parametrize("resolution", ["1", "1/1000"])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_columns_give_the_bits_of_objects(name: str, resolution: str) -> None:
    """Any interleaving, keys once or often in a push, horizons, stops, noise of every size."""
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(20),
        perturber=tg.perturb.Hierarchy(epsilon=2, **GEOMETRIES[name]),  # type: ignore[arg-type]
        resolution=resolution,
    )
    specification = tg.keyed(pipeline, keys=[*range(4), "never", "x"])
    objects = specification.start(tg.seeded(1))
    columns = specification.start(tg.seeded(1), record=False)
    random = np.random.default_rng(3)
    known = np.array(["0", "1", "2", "3", "x"], dtype=object)
    longest = 5000 if name == "several groves" else 150
    for number in range(9):
        keys = random.permutation(known)
        if number % 3:
            keys = random.choice(known, random.integers(1, longest), p=[0.5, 0.2, 0.1, 0.1, 0.1])
        values = random.integers(0, 30, keys.size)
        found = [one.push(keys.tolist(), values) for one in (objects, columns)]
        for column in ("codes", "positions", "values", "levels"):
            assert bits(getattr(found[0], column)) == bits(getattr(found[1], column))
        if number in (2, 5):
            assert b"columns" in columns.snapshot()
            columns = specification.resume(columns.snapshot())
    with pytest.raises(tg.QueryError, match="keeps no record"):
        columns.query(key="x")


ADAPTIVE = {
    "trees are chosen, a shared threshold": tg.adaptive(1, 300, holdout=90, horizon=400),
    "short horizons, wide noise": tg.adaptive("0.1", 60, holdout=90, horizon=50),
    "three levels": tg.adaptive(2, 300, holdout=90, horizon=1100, nodes=(1, 8, 64)),
    "values below 0": tg.adaptive(1, 300, lower=-200, holdout=90, horizon=400),
    "windows": tg.adaptive(4, 300, holdout=90, horizon=400, unit=tg.units.Window(4)),
    "values below 0, fine trees": tg.adaptive(
        3, 300, lower=-300, holdout=90, horizon=1100, nodes=(1, 8, 64)
    ),
}


@pytest.mark.parametrize("name", in_turn(ADAPTIVE, 0))
def test_adaptive_columns_give_the_bits_of_objects(name: str) -> None:
    """Levels that move, so that trees and caps do; some keys ahead of others; stops."""
    specification = tg.keyed(ADAPTIVE[name], keys=[*range(5), "never"], threshold="shared")
    objects = specification.start(tg.seeded(1))
    columns = specification.start(tg.seeded(1), record=False)
    random = np.random.default_rng(3)
    levels = random.gamma(1, 6, 5)
    for number in range(12):
        keys = random.permutation(5)
        if number % 3:
            keys = random.choice(5, random.integers(1, 600), p=[0.4, 0.3, 0.1, 0.1, 0.1])
        levels *= np.exp(random.normal(0, 0.4, 5))
        values = random.exponential(levels[keys])
        if specification.pipeline.lower:
            values[random.random(keys.size) < 0.4] *= -2
        found = [one.push(keys, values) for one in (objects, columns)]
        for column in ("codes", "positions", "values", "levels"):
            assert bits(getattr(found[0], column)) == bits(getattr(found[1], column))
        if number in (2, 4, 7):
            assert b"adaptive columns" in columns.snapshot()
            columns = specification.resume(columns.snapshot())
    assert objects.released_keys() == columns.released_keys()
    assert len(columns.snapshot(bytes(32))) < 6 * 3000


def test_two_sided_columns_with_fixed_ends_and_their_older_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A state from before arrays could run the pipeline goes on with objects."""
    pipeline = replace(
        tg.adaptive(1, 300, lower=-50, holdout=90, horizon=400), threshold=tg.threshold.Fixed(80)
    )
    specification = tg.keyed(pipeline, keys=range(3))
    columns = specification.start(tg.seeded(1), record=False)
    with monkeypatch.context() as before:
        before.setattr(keyed_release, "chosen_engine", lambda *_, **__: ObjectEngine)
        older = specification.start(tg.seeded(1), record=False)
    random = np.random.default_rng(3)
    for number in range(6):
        keys = random.integers(0, 3, 200)
        values = random.normal(5, 60, keys.size)
        found = [one.push(keys, values) for one in (older, columns)]
        for column in ("positions", "values", "levels"):
            assert bits(getattr(found[0], column)) == bits(getattr(found[1], column))
        if number == 2:
            assert b"adaptive columns" in columns.snapshot()
            older = specification.resume(older.snapshot())
    assert b"objects" in older.snapshot()
    assert older.released_keys() == columns.released_keys()


REFINED = {
    "windows and restarts": tg.adaptive(2, 1000, horizon=600),
    "short horizons, wide noise": tg.adaptive("0.1", 60, horizon=50),
    "three levels": tg.adaptive(3, 10**6, horizon=1100, nodes=(1, 8, 64)),
    "a fine grid": tg.adaptive(3, 10**6, horizon=1100),
    "long warm-ups": tg.adaptive("0.03", 40, horizon=5000),
    "mostly zero": tg.adaptive(5, 30, horizon=2000),
    "units of two rows": tg.adaptive(8, 1000, horizon=600, unit=tg.units.Window(2)),
    "no windows": replace(tg.adaptive(2, 1000, horizon=600), reselect=Refinement(windows=False)),
    "no restarts": replace(tg.adaptive(2, 1000, horizon=600), reselect=Refinement(restarts=False)),
    "late looks": tg.adaptive(40, 10**5, horizon=400),
    "values below 0": tg.adaptive(2, 1000, lower=-400, horizon=600),
    "values below 0, wide noise": tg.adaptive("0.1", 60, lower=-60, horizon=50),
    "values below 0, a fine grid": tg.adaptive(3, 10**6, lower=-(10**6), horizon=1100),
}


def longest(name: str) -> int:
    """Rows of a push: by hand everything is met two thirds as often as at the gate."""
    return 900 if name in ("long warm-ups", "mostly zero") else depth(450, 900)


def refined_pushes(
    seed: int, keys: int, pushes: int, most: int, zeros: float = 0.0, negative: float = 0.0
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """A row of every key, or many of some; levels that move, and jump by a factor of 30."""
    random = np.random.default_rng(seed)
    levels = random.gamma(1, 6, keys)
    for number in range(pushes):
        some = random.permutation(keys)
        if number % 4:
            chances = random.dirichlet(np.ones(keys))
            some = random.choice(keys, random.integers(1, most), p=chances)
        levels *= np.exp(random.normal(0, 0.4, keys))
        if number == pushes // 2:
            levels *= random.choice([1, 30], keys)
        values = random.exponential(levels[some])
        if zeros:
            values[random.random(some.size) < zeros] = 0
        if negative:  # of each key another part; with time that turns around
            share = negative * (1 + some + number) % 1
            values[random.random(some.size) < share] *= -1
        yield some, values


@pytest.mark.parametrize("seed", range(depth(1, 4)))
@pytest.mark.parametrize("name", in_turn(REFINED, 0, ["mostly zero"], of=3))
def test_refined_columns_give_the_bits_of_single_releases(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Warm-ups, windows, full caps and horizons, whatever else a push holds; stops.

    Choices are made key by key, or all of them in arrays.
    """
    monkeypatch.setattr(refined_columns, "_TOGETHER", (1, 100)[(len(name) + seed) % 2])
    pipeline, count = REFINED[name], 5
    specification = tg.keyed(pipeline, keys=[*range(count), "never"])
    columns = specification.start(tg.seeded(1), record=False)
    epoch, releases = tg.seeded(1).new_epoch(), {}
    for key in range(count):
        releases[key] = Release(pipeline, epoch.of_key(str(key)), ownership=Ownership())
    most, zeros = longest(name), 0.9 if name == "mostly zero" else 0.0
    negative = 0.23 if pipeline.lower else 0.0
    pushes = refined_pushes(seed, count, 12, most, zeros, negative)
    for number, (keys, values) in enumerate(pushes):
        found = columns.push(keys, values)
        for key in np.unique(keys):
            first = releases[key].position
            expected, mine = releases[key].push_rows(values[keys == key]), found.of(str(key))
            assert bits(mine.positions) == bits(first + np.arange(expected.values.size))
            assert bits(mine.values) == bits(expected.values)
            assert bits(mine.levels) == bits(expected.levels)
        if number in (2, 5, 8, 11):
            assert b"refined columns" in columns.snapshot()
            columns = specification.resume(columns.snapshot())
        if number == 6:
            columns.finish()
            for release in releases.values():
                release.finish()
    known = {key: phases for key, _, phases in columns.released_keys()}
    assert known == {str(key): release.phases for key, release in releases.items()}
    assert columns.unmeasured() == sum(not release.phases for release in releases.values())


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Which of these a test has called."""
    found: Counter[str] = Counter()

    def met_by(owner: type, name: str) -> None:
        called = getattr(owner, name)

        def counted(*given: Any, **named: Any) -> Any:
            answer = called(*given, **named)
            found[name] += int(answer.sum()) if name == "_right_caps" else 1
            return answer

        monkeypatch.setattr(owner, name, counted)

    for name in ("_begin_warm_up", "_end_warm_up", "_choose_again", "_climbs", "_arrive"):
        met_by(RefinementRun, name)
    for name in ("end_warm_ups", "choose_again", "_right_caps", "_hidden"):
        met_by(RefinedChoices, name)
    met_by(Refinement, "window_again")
    met_by(CapWatch, "block")
    met_by(MixtureOfManyThresholds, "begin_blocks")
    return found


def test_the_refined_law_meets_everything(met: Counter[str]) -> None:
    """The law is not vacuous: caps fill, windows and horizons end, blocks look full, θ climbs."""
    name = "windows and restarts"
    for seed in range(depth(1, 4)):  # those of the law
        columns = tg.keyed(REFINED[name], keys=range(5)).start(tg.seeded(1), record=False)
        for part in refined_pushes(seed, 5, 12, longest(name)):
            columns.push(*part)
    climbing = tg.keyed(REFINED["mostly zero"], keys=range(5)).start(tg.seeded(1), record=False)
    for part in refined_pushes(0, 5, 12, 800, 0.9):
        climbing.push(*part)
    together = {"end_warm_ups", "choose_again", "_right_caps", "_hidden"}  # not here
    assert len(met.keys() - together) == 8, met
    assert max(count for _, count, _ in columns.released_keys()) > 600


def test_the_two_sided_law_meets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values outgrow either end, windows open and end; and most cells end without a run."""
    found: Counter[str] = Counter()
    began, opens, taken = (
        getattr(RefinementRun, name) for name in ("_begin_warm_up", "_opens_window", "push_units")
    )

    def begin(run: Any, *given: Any) -> None:
        began(run, *given)
        found["fell" if run.fell else "outgrown"] += 1

    def opened(run: Any, *given: Any) -> bool:
        answer = opens(run, *given)
        found["opened"] += answer
        return answer

    def push(run: Any, *given: Any) -> None:
        found["runs"] += 1
        taken(run, *given)

    for name, replaced in (("_begin_warm_up", begin), ("_opens_window", opened)):
        monkeypatch.setattr(RefinementRun, name, replaced)
    monkeypatch.setattr(RefinementRun, "push_units", push)
    rows = 0
    for seed in range(6):
        specification = tg.keyed(REFINED["values below 0"], keys=range(5))
        columns = specification.start(tg.seeded(1), record=False)
        for keys, values in refined_pushes(seed, 5, 12, 900, negative=0.23):
            columns.push(keys, values)
            rows += keys.size
    assert min(found[name] for name in ("fell", "outgrown", "opened")) > 3, found
    assert found["runs"] < rows / 50


@pytest.mark.parametrize("lower", [0, -300])
def test_files_by_key_have_the_records_of_single_releases(lower: int) -> None:
    """Pushes of many rows a key go through arrays, with a record; snapshots in between."""
    pipeline = tg.adaptive(2, 1000, lower=lower, horizon=1500)
    specification = tg.keyed(pipeline, keys=range(3))
    release, epoch = specification.start(tg.seeded(1)), tg.seeded(1).new_epoch()
    random, alone = np.random.default_rng(4), {}
    for key in range(3):
        alone[key] = Release(pipeline, epoch.of_key(str(key)), ownership=Ownership())
    for number in range(5):
        keys = random.integers(0, 3, 1200)
        values = random.gamma(1, 20, keys.size) * (1 + 5 * (number > 2))
        if lower:
            values[random.random(keys.size) < 0.3 * number / 2] *= -1
        found = release.push(keys, values)
        for key, one in alone.items():
            expected = one.push_rows(values[keys == key])
            assert bits(found.of(str(key)).values) == bits(expected.values)
            assert bits(found.of(str(key)).levels) == bits(expected.levels)
        if number == 2:
            release = specification.resume(release.snapshot())
    for key, one in alone.items():
        assert release.query(10, 900, key=str(key)) == one.query(10, 900)
    assert release._engine._columns is not None


@pytest.mark.parametrize("record", in_turn([True, False], 0))
def test_keys_that_choose_together_give_the_bits_of_single_releases(
    record: bool, met: Counter[str]
) -> None:
    """In lock-step, with caps that fill and are right after all, or not."""
    count, rows, random = 6, 3000, np.random.default_rng(0)
    values = random.gamma(2, 3, (rows, count))
    values[rows // 2 :] = 18 + random.random((rows // 2, count))
    values[-rows // 4 :, :2] *= 30
    pipeline = tg.adaptive(3, 1000, horizon=rows, resolution="0.1")
    release = tg.keyed(pipeline, keys=range(count)).start(tg.seeded(0), record=record)
    found = release.push(np.tile(np.arange(count), rows), values.reshape(-1))
    assert min(met[each] for each in ("end_warm_ups", "choose_again", "_right_caps", "_hidden"))
    epoch, known = tg.seeded(0).new_epoch(), release.released_keys()
    for key in range(count):
        alone = Release(pipeline, epoch.of_key(str(key)), ownership=Ownership())
        expected, mine = alone.push_rows(values[:, key]), found.of(str(key))
        assert bits(mine.values) == bits(expected.values)
        assert bits(mine.levels) == bits(expected.levels)
        assert known[key][2] == alone.phases
        if record:
            assert release._engine._release(key).snapshot() == alone.snapshot()  # type: ignore[union-attr]


def test_tables_of_refined_columns_give_up_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits when rows of the tables are given up all the time."""
    specification = tg.keyed(REFINED["windows and restarts"], keys=range(5))
    plain = specification.start(tg.seeded(1), record=False)
    expected = [plain.push(*part).values for part in refined_pushes(2, 5, 10, 900)]
    monkeypatch.setattr(mixture_of_many_thresholds, "_MOST_ROWS", 4)
    small = specification.start(tg.seeded(1), record=False)
    found = [small.push(*part).values for part in refined_pushes(2, 5, 10, 900)]
    tables = [one._engine._columns.mixture.tables for one in (small, plain)]  # type: ignore[union-attr]
    assert len(tables[0]) < len(tables[1])
    assert [bits(one) for one in found] == [bits(one) for one in expected]


@pytest.mark.parametrize("name", in_turn(REFINED, 2, ["windows and restarts"], of=3))
def test_many_rows_a_key_leave_what_single_releases_leave(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through columns and objects in turn: rows, state, record, also after a stop."""
    times = len(name) // 2 % 2 == 0  # with times or without
    monkeypatch.setattr(refined_columns, "_TOGETHER", (100, 1)[len(name) % 2])
    pipeline, count = REFINED[name], 4
    specification = tg.keyed(pipeline, keys=[*range(count), "never"])
    release = specification.start(tg.seeded(1))
    epoch, alone = tg.seeded(1).new_epoch(), {}
    for key in range(count):
        alone[key] = Release(pipeline, epoch.of_key(str(key)), ownership=Ownership())
    clock, through_columns = 1_700_000_000, 0
    for number, (keys, values) in enumerate(refined_pushes(3, count, 10, longest(name))):
        when = clock + np.arange(keys.size) if times else None
        clock += keys.size
        found = release.push(keys, values, when)
        for key in np.unique(keys):
            rows = keys == key
            expected = alone[key].push_rows(
                values[rows], times=None if when is None else when[rows]
            )
            mine = found.of(str(key))
            assert bits(mine.values) == bits(expected.values)
            assert bits(mine.levels) == bits(expected.levels)
        engine = release._engine
        assert isinstance(engine, ObjectEngine)
        through_columns += sum(code in engine._columns for code in range(count))  # type: ignore[operator]
        if number in (3, 8):
            release = specification.resume(release.snapshot())
            alone = {key: pipeline.resume(one.snapshot()) for key, one in alone.items()}
    assert through_columns > count
    release.finish()
    for key, single in alone.items():
        if single.position:
            single.finish()
            record, end = release.record(key), single.position
            assert release._engine._release(key).snapshot() == single.snapshot()  # type: ignore[union-attr]
            assert (
                record.queries([record.start], [end])[0]
                == single.record.queries([record.start], [end])[0]
            )


@pytest.mark.parametrize(
    "pipeline",
    [
        tg.tops(epsilon=1, bound=40, holdout=50, horizon=256, fanout=4),
        tg.adaptive(epsilon=1, bound=40, holdout=50, horizon=64),
    ],
)
def test_columns_refuse_and_end_like_objects(pipeline: tg.Pipeline) -> None:
    specification = tg.keyed(pipeline, keys_are_public=True, threshold="shared")
    runs = [specification.start(tg.seeded(1), record=record) for record in (True, False)]
    ticks = np.arange(300)
    keys = np.random.default_rng(0).choice(["a", "b", "c"], 300)
    found = [run.push(keys, ticks % 40, ticks) for run in runs]
    assert bits(found[0].values) == bits(found[1].values)
    assert runs[0].released_keys() == runs[1].released_keys()
    for run in runs:
        before = run.snapshot()
        for some, when in ((["a", "a"], [500, 400]), (["b", "a"], [400, 0])):
            with pytest.raises(tg.InputError, match="before"):
                run.push(some, [1, 2], when)
        assert run.snapshot() == before
        run.end("a")
        with pytest.raises(tg.InputError, match="'a' has ended"):
            run.push(["a"], [1], [600])
    last = [run.push(["b", "c", "d"] * 40, np.arange(120), np.arange(600, 720)) for run in runs]
    assert bits(last[0].values) == bits(last[1].values)
