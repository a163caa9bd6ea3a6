"""One shard without Spark: its rows are those of single releases; its state is sealed."""

import itertools
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="needs pyspark: pip install '.[spark]'")

import tidegate as tg
from tests.spark.streams import adaptive, alone, fixed, made_up
from tidegate import perturb, threshold
from tidegate.errors import MissingError, SettingError, SnapshotError
from tidegate.keyed.noise_of_many_keys import GroveNoise
from tidegate.keyed.regrouped_keys import regrouped_keys
from tidegate.lattice import IntArray
from tidegate.ledger import CapExceeded
from tidegate.perturb import forest_geometry
from tidegate.run.earlier_pipelines import earlier_pipelines
from tidegate.run.pipeline import Pipeline
from tidegate.spark.executor_settings import ExecutorSettings
from tidegate.spark.secret import MasterSecret
from tidegate.spark.sequence_numbers import InputRows
from tidegate.spark.shard import ReleasedShardValues, Shard

QUERY = "5bdb2f23-e9c2-4f25-81ac-f66490d742f6"


def plan(pipeline: Pipeline, key_file: Path, **changed: Any) -> ExecutorSettings:
    settings: dict[str, Any] = {
        "shards": 4, "gaps": "close", "cap": None, "packed": True, "timed": False, **changed
    }  # fmt: skip
    return ExecutorSettings(pipeline=pipeline, secret=MasterSecret(f"file:{key_file}"), **settings)


def batch(data: dict[str, np.ndarray], start: int, end: int) -> InputRows:
    names = sorted(data)
    return InputRows(
        np.array(names, dtype=object),
        np.arange(len(names)),
        np.full(len(names), start),
        np.array([len(data[name][start:end]) for name in names]),
        np.concatenate([data[name][start:end] for name in names]),
        None,
    )


def of_one_threshold() -> Pipeline:
    """`adaptive` with a public θ."""
    stages = tg.adaptive(epsilon=1, bound=50, horizon=1 << 16, holdout=64)
    return replace(stages, threshold=threshold.Fixed(50))


def run(shard: Shard, data: dict[str, np.ndarray], cuts: list[int]) -> tuple[Shard, Any]:
    """All batches, each by a shard that was unsealed for it; the last shard and all rows."""
    found: list[ReleasedShardValues] = []
    for start, end in itertools.pairwise(cuts):
        found.append(shard.push(batch(data, start, end)))
        shard = Shard.resume(shard.plan, shard.number, shard.sealed())
    by_key: dict[str, list[np.ndarray]] = {name: [] for name in data}
    for part in found:
        for code, name in enumerate(part.keys):
            mine = part.codes == code
            columns = part.positions[mine], part.values[mine], part.levels[mine]
            by_key[name].append(np.stack(columns))
    return shard, {name: np.concatenate(parts, axis=1) for name, parts in by_key.items()}


@pytest.mark.parametrize(
    "pipeline",
    [fixed(), adaptive(), tg.tops(epsilon=1, bound=50, horizon=500, holdout=64)],
    ids=["fixed", "adaptive", "hold-out"],
)
def test_a_key_gets_what_a_single_release_gives(pipeline: Pipeline, key_file: Path) -> None:
    data = made_up(3, 400)
    shard = Shard.begin(plan(pipeline, key_file), 2, MasterSecret(f"file:{key_file}").epoch(QUERY))
    _, found = run(shard, data, [0, 50, 70, 71, 300, 400])
    for name, values in data.items():
        expected = alone(pipeline, QUERY, name, values, key_file)
        positions = np.arange(expected.first, expected.first + expected.values.size)
        np.testing.assert_array_equal(found[name], [positions, expected.values, expected.levels])


def test_times_belong_to_the_rows_that_are_released(key_file: Path) -> None:
    """The first rows of a key are held out: their times are not in the output."""
    pipeline = tg.tops(epsilon=1, bound=50, horizon=500, holdout=64)
    data = dict(made_up(2, 90).items())
    rows = replace(batch(data, 0, 90), times=np.tile(np.arange(90), 2))
    shard = Shard.begin(
        plan(pipeline, key_file, timed=True), 0, MasterSecret(f"file:{key_file}").epoch(QUERY)
    )
    released = shard.push(rows)
    np.testing.assert_array_equal(released.times, np.tile(np.arange(64, 90), 2))
    np.testing.assert_array_equal(released.positions, np.tile(np.arange(26), 2))


def test_a_checkpoint_of_before_decision_0136_goes_on(key_file: Path) -> None:
    """The same arguments lead to a finer resolution now; a shard keeps what it began with."""
    today = plan(tg.adaptive(epsilon=1, bound=50, horizon=400), key_file)
    (coarse,) = earlier_pipelines(today.pipeline)
    before, epoch = replace(today, pipeline=coarse), MasterSecret(f"file:{key_file}").epoch(QUERY)
    data = made_up(3, 200)
    shard = Shard.begin(before, 2, epoch)
    shard.push(batch(data, 0, 90))
    state = shard.sealed()
    for start, end in ((90, 150), (150, 200)):  # and so does what it leaves
        ours, theirs = (Shard.resume(one, 2, state) for one in (today, before))
        assert ours.plan == before
        found = [one.push(batch(data, start, end)).values for one in (ours, theirs)]
        np.testing.assert_array_equal(*found)
        state = ours.sealed()


def test_state_is_sealed_and_bound_to_its_place(key_file: Path, tmp_path: Path) -> None:
    secret = MasterSecret(f"file:{key_file}")
    mine = plan(fixed(), key_file)
    shard = Shard.begin(mine, 1, secret.epoch(QUERY))
    shard.push(batch({"a name that can be found": np.arange(5.0)}, 0, 5))
    data = shard.sealed()
    assert b"a name" not in data
    assert secret.epoch(QUERY).secret not in data
    assert QUERY.encode() not in data
    with pytest.raises(SnapshotError, match="moved to another"):
        Shard.resume(mine, 0, data)
    with pytest.raises(SnapshotError, match="another pipeline or another number of shards"):
        Shard.resume(replace(mine, shards=5), 1, data)
    with pytest.raises(SnapshotError, match="damaged"):
        Shard.resume(mine, 1, data[:-1] + bytes([data[-1] ^ 1]))
    other = tmp_path / "other"
    other.write_bytes(bytes(32))
    with pytest.raises(SnapshotError, match="the key is another one"):
        Shard.resume(plan(fixed(), other), 1, data)


def test_a_shard_without_keys_is_resumed(key_file: Path) -> None:
    """After resharding some shards have no key yet; also in the columns of `adaptive`."""
    held = tg.adaptive(epsilon=1, bound=50, horizon=1000, holdout=64)
    for pipeline in (fixed(), adaptive(), replace(held, threshold=tg.threshold.Fixed(50))):
        mine = plan(pipeline, key_file)
        empty = Shard.begin(mine, 0, MasterSecret(f"file:{key_file}").epoch(QUERY))
        shard = Shard.resume(mine, 0, empty.sealed())
        data = made_up(2, 200)
        _, found = run(shard, data, [0, 120, 200])
        for name, values in data.items():
            expected = alone(pipeline, QUERY, name, values, key_file)
            np.testing.assert_array_equal(found[name][1], expected.values)


def test_keys_go_on_in_other_shards(key_file: Path) -> None:
    """Split and merged, in columns and as objects: the rows are those of single releases."""
    for pipeline in (fixed(), adaptive(), tg.tops(epsilon=1, bound=50, horizon=500, holdout=64)):
        data = made_up(6, 300)
        parts = [dict(list(data.items())[:2]), dict(list(data.items())[2:])]
        mine, epoch = plan(pipeline, key_file), MasterSecret(f"file:{key_file}").epoch(QUERY)
        runs = [
            run(Shard.begin(mine, at, epoch), part, [0, 90, 150]) for at, part in enumerate(parts)
        ]
        homes = {name: at % 3 for at, name in enumerate(data)}
        releases = regrouped_keys([shard.release for shard, _ in runs], 3, homes.__getitem__)
        wanted = replace(mine, shards=3)
        for number, release in enumerate(releases):
            last = np.full(len(release.keys), 149)
            shard = Shard(wanted, number, release, last)
            names = [name for name in data if homes[name] == number]
            _, after = run(shard, {name: data[name] for name in names}, [0, 200, 300])
            for name in names:
                before = next(found[name] for _, found in runs if name in found)
                expected = alone(pipeline, QUERY, name, data[name], key_file)
                whole = np.concatenate((before, after[name]), axis=1)
                np.testing.assert_array_equal(whole[1], expected.values)


def test_a_cap_stops_before_the_first_value(key_file: Path) -> None:
    mine = plan(fixed(), key_file, cap=Fraction(2))
    shard = Shard.begin(mine, 0, MasterSecret(f"file:{key_file}").epoch(QUERY))
    shard.spent = {"key-0": Fraction(1), "key-1": Fraction(3, 2)}
    data = made_up(2, 20)
    shard.push(batch({"key-0": data["key-0"]}, 0, 20))
    with pytest.raises(CapExceeded, match="key-1"):
        shard.push(batch(data, 0, 20))
    with pytest.raises(SettingError, match="cap"):
        plan(fixed(), key_file, cap=Fraction(1, 2))


def test_the_secret_is_read_where_it_is_and_never_shown(
    key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = MasterSecret(f"file:{key_file}").sealing_key()
    monkeypatch.setenv("MASTER", key_file.read_bytes().hex())
    assert MasterSecret("env:MASTER").sealing_key() == found
    assert MasterSecret(f"command:cat {key_file}").sealing_key() == found
    for wrong in ("00" * 32, "", "file:", "other:thing"):
        with pytest.raises(SettingError) as refused:
            MasterSecret(wrong)
        assert "00" not in str(refused.value)
    for missing in ("env:NOT_THERE", f"file:{tmp_path}/none", "command:false", "command:no-such"):
        with pytest.raises(MissingError, match="secret"):
            MasterSecret(missing).sealing_key()
    short = tmp_path / "short"
    short.write_text("abcdef")
    with pytest.raises(SettingError) as refused:
        MasterSecret(f"file:{short}").sealing_key()
    assert "abcdef" not in str(refused.value)


def test_noise_of_the_next_blocks_is_kept_in_the_state(
    key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bits are those of single releases, over groves and horizons; noise is made far less often."""
    made: list[int] = []
    whole = GroveNoise.make

    def counted(self: GroveNoise, codes: IntArray, *rest: Any) -> Any:
        made.append(codes.size)
        return whole(self, codes, *rest)

    monkeypatch.setattr(GroveNoise, "make", counted)
    keys, epoch = 2, MasterSecret(f"file:{key_file}").epoch(QUERY)
    hierarchy, ε = perturb.Hierarchy, Fraction(1)
    for perturber, grove, share in (
        (hierarchy(epsilon=ε, horizon=450), 4096, 1 / 4),  # horizons of 29 blocks
        (hierarchy(epsilon=ε, horizon=250, fanout=4, skipped=2, levels=2), 8, 1 / 2),
        (perturb.Flat(epsilon=ε, horizon=1000, block=16), 4096, 1 / 4),
    ):
        monkeypatch.setattr(forest_geometry, "_GROVE_LEAVES", grove)
        pipeline, data = replace(fixed(), perturber=perturber), made_up(keys, 700)
        made.clear()
        cuts = [0, 3, *range(16, 500, 16), *range(500, 700, 21), 700]
        _, found = run(Shard.begin(plan(pipeline, key_file), 2, epoch), data, cuts)
        assert sum(made) <= keys * share * len(cuts)
        for name, values in data.items():
            expected = alone(pipeline, QUERY, name, values, key_file)
            np.testing.assert_array_equal(found[name][1:], [expected.values, expected.levels])


def test_states_of_keys_with_few_rows_keep_no_noise(key_file: Path) -> None:
    data, epoch = made_up(40, 700), MasterSecret(f"file:{key_file}").epoch(QUERY)
    mine = plan(fixed(horizon=1 << 16), key_file)  # blocks of 256
    few, many = Shard.begin(mine, 0, epoch), Shard.begin(mine, 0, epoch)
    for start, end in ((0, 300), (300, 301)):
        few.push(batch(data, start, end))
        few = Shard.resume(mine, 0, few.sealed())
    many.push(batch(data, 0, 300))
    assert len(few.sealed()) / len(data) < 80
    assert 130 < len(many.sealed()) / len(data) <= 150


@pytest.mark.parametrize("pipeline", [adaptive(1 << 16), of_one_threshold()], ids=["own", "one"])
def test_states_of_adaptive_keys_are_short_and_tell_nothing_of_values(
    pipeline: Pipeline, key_file: Path
) -> None:
    """Up to 3 kB a key; as long whatever the values are that no noise was added to yet."""
    mine, data = plan(pipeline, key_file), made_up(12, 700)
    shard = Shard.begin(mine, 0, MasterSecret(f"file:{key_file}").epoch(QUERY))
    for start, end in ((0, 50), (50, 300), (300, 700)):
        shard.push(batch(data, start, end))
        state = shard.sealed()
        assert len(state) / len(data) <= 3000
        low, high = Shard.resume(mine, 0, state), Shard.resume(mine, 0, state)
        found = [
            one.push(batch(dict.fromkeys(data, np.full(end + 1, value)), end, end + 1))
            for one, value in ((low, 0.0), (high, 50.0))
        ]
        assert (found[0].values == found[1].values).all()  # inside of leaves and warm-ups
        assert len(low.sealed()) == len(high.sealed())
        shard = Shard.resume(mine, 0, state)
