"""Snapshots are as secret as raw data: sealed ones show nothing, and a changed one is refused."""

import struct

import numpy as np
import pytest

import tidegate as tg
from tests.depth import depth
from tidegate.sealing import seal

KEY, OTHER_KEY = bytes(range(32)), bytes(32)
PREFIX = struct.Struct(">8sBI")


def pipeline(**changes):
    return tg.Pipeline(
        **{
            "threshold": tg.threshold.NoisyMax(epsilon=1, bound=9999, holdout=4, horizon=64),
            "perturber": tg.perturb.Hierarchy(epsilon=1, horizon=64, fanout=4, skipped=1),
            "estimator": tg.estimate.Mean(),
            **changes,
        }
    )


def release_after(count, value=4711, randomness=None):
    release = pipeline().start(randomness)
    release.push(np.full(count, value))
    return release


def split(data):
    """Header with its frame, and what follows."""
    length = PREFIX.size + PREFIX.unpack_from(data)[2]
    return data[:length], data[length:]


@pytest.mark.parametrize("count", [0, 3, 4, 30])
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_any_changed_byte_is_refused(count, key):
    data = release_after(count).snapshot(key)
    assert pipeline().resume(data, key).snapshot(key)
    rng = np.random.default_rng(count)
    for index in range(count % 3, len(data), depth(3, 1)):
        changed = bytearray(data)
        changed[index] ^= int(rng.integers(1, 256))
        with pytest.raises(tg.SnapshotError):
            pipeline().resume(bytes(changed), key)


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_a_cut_or_longer_snapshot_is_refused(key):
    data = release_after(30).snapshot(key)
    for length in range(0, len(data), 3):
        with pytest.raises(tg.SnapshotError):
            pipeline().resume(data[:length], key)
    for longer in (data + b"\0", data + data, b"\0" + data):
        with pytest.raises(tg.SnapshotError):
            pipeline().resume(longer, key)


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_headers_cannot_be_swapped(key):
    # Catches: a body moved to another position, epoch or stream.
    first = release_after(10)
    earlier = first.snapshot(key)
    first.push(np.zeros(40))
    later, another = first.snapshot(key), release_after(10).snapshot(key)
    for one, two in ((earlier, later), (later, earlier), (earlier, another), (another, later)):
        with pytest.raises(tg.SnapshotError):
            pipeline().resume(split(one)[0] + split(two)[1], key)


def test_a_sealed_snapshot_needs_its_key():
    data = release_after(10).snapshot(KEY)
    with pytest.raises(tg.SnapshotError, match="key"):
        pipeline().resume(data, OTHER_KEY)
    with pytest.raises(tg.SnapshotError, match="sealed"):
        pipeline().resume(data)
    for bad in (b"", b"short", bytes(33)):
        with pytest.raises(tg.SettingError, match="key"):
            pipeline().resume(data, bad)
        with pytest.raises(tg.SettingError, match="key"):
            release_after(1).snapshot(bad)


def test_an_unsealed_snapshot_cannot_take_the_place_of_a_sealed_one():
    # Catches a downgrade: whoever can write the file plants a release whose noise key he knows.
    planted = release_after(10).snapshot()
    with pytest.raises(tg.SnapshotError):
        pipeline().resume(planted, KEY)


@pytest.mark.parametrize(
    "change",
    [
        {"resolution": 2},
        {"estimator": tg.estimate.Recent()},
        {"non_negative": True},
        {"history": 100},
        {"threshold": tg.threshold.Fixed(20)},
        {"threshold": tg.threshold.NoisyMax(epsilon=2, bound=9999, holdout=4, horizon=64)},
        {"perturber": tg.perturb.Hierarchy(epsilon=2, horizon=64, fanout=4, skipped=1)},
        {"perturber": tg.perturb.Flat(epsilon=1, horizon=64)},
    ],
    ids=str,
)
@pytest.mark.parametrize("count", [2, 10])
def test_a_snapshot_of_another_pipeline_is_refused(change, count):
    # Catches: old noise that is reused with another scale.
    with pytest.raises(tg.SnapshotError, match="settings"):
        pipeline(**change).resume(release_after(count).snapshot())


def test_another_format_version_is_refused():
    data = bytearray(release_after(10).snapshot())
    data[8] += 1
    with pytest.raises(tg.SnapshotError, match="version"):
        pipeline().resume(bytes(data))


@pytest.mark.parametrize("garbage", [b"", b"TIDEGATE", b"{}", bytes(100), b"TIDEGATE" + bytes(50)])
def test_garbage_is_refused(garbage):
    for key in (None, KEY):
        with pytest.raises(tg.SnapshotError):
            pipeline().resume(garbage, key)


def test_a_record_is_no_snapshot():
    release = release_after(10)
    with pytest.raises(tg.SnapshotError):
        pipeline().resume(release.save_record())
    with pytest.raises(tg.SnapshotError):
        tg.load_record(release.snapshot())
    posing = seal({"content": "record", "settings": "", "epoch": "", "position": 0}, {}, None)
    with pytest.raises(tg.SnapshotError):
        pipeline().resume(posing)


# -- what a sealed snapshot and a public record show ----------------------------------------------


def test_a_sealed_snapshot_shows_neither_values_nor_secret():
    release = release_after(3, randomness=tg.seeded(1))  # in the hold-out: raw values in full
    secrets = [
        np.full(3, 4711, dtype="<i8").tobytes(),
        (4711).to_bytes(8, "little"),
        b"4711",
        release._epoch.secret,
        release._epoch.secret.hex().encode(),
    ]
    plain, sealed = release.snapshot(), release.snapshot(KEY)
    assert any(mark in plain for mark in secrets)  # the search would find them
    assert not any(mark in sealed for mark in secrets if len(mark) > 4)
    header, body = split(sealed)
    assert b"4711" not in header
    assert split(release.snapshot(KEY))[1] != body  # a fresh nonce each time
    assert release.epoch.encode() in header


def with_open_block(value):
    """The same seed and the same past; the values in the open block differ."""
    release = pipeline().start(tg.seeded(5))
    release.push(np.full(4 + 9, 7))
    release.push(np.full(2, value))  # blocks of 4: nine and two leave three in the open block
    return release


def test_the_length_of_a_sealed_snapshot_shows_nothing():
    # Catches: numbers written in decimal: their digits can be counted from outside.
    lengths = {len(with_open_block(value).snapshot(KEY)) for value in (0, 1, 50, 4711, 9999)}
    assert len(lengths) == 1
    lengths = {len(release_after(3, value).snapshot(KEY)) for value in (0, 1, 50, 4711, 9999)}
    assert len(lengths) == 1


def test_a_record_and_all_public_facts_ignore_the_open_block():
    # Catches: a raw partial sum in the public record, an answer, or a prediction.
    first, second = (with_open_block(value) for value in (0, 9999))
    assert first.threshold == second.threshold
    assert first.save_record() == second.save_record()
    assert repr(first) == repr(second)
    assert first.position == second.position
    assert first.query(3, first.position) == second.query(3, second.position)


def test_a_record_holds_no_secret():
    release = release_after(30)
    data = release.save_record()
    for mark in (release._epoch.secret, release._epoch.secret.hex().encode()):
        assert mark not in data
        assert mark in release.snapshot() or len(mark) == 32
