"""The same noise on other data, or under other settings, reveals the truth: noise has one place."""

import contextlib
import itertools
import threading
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tidegate.perturb.forest_perturber import ForestRun
from tidegate.randomness import Epoch, Keystream

EPOCH = Epoch(bytes(range(32)), bytes(range(16)))
ADDRESS = st.tuples(st.integers(0, 2**48 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**8 - 1))


def words(keystream, count=64, **place):
    return keystream.at(**place).take(count)


def unrelated(first, second):
    """No word in common and about half of all bits equal."""
    bits = np.unpackbits((first ^ second).view(np.uint8))
    shared = np.intersect1d(first, second).size
    return shared == 0 and abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)


def test_unrelated_is_a_test():
    same = words(EPOCH.keystream("a", b"x"))
    assert not unrelated(same, same)
    assert not unrelated(same, np.roll(same, 1))  # the same words in other places


# -- keys: secret, epoch, purpose, settings -----------------------------------------------------


def test_keys_differ_by_everything_that_names_them():
    # Catches: a field left out of the derivation.
    epochs = [
        EPOCH,
        Epoch(bytes(32), EPOCH.id),
        Epoch(EPOCH.secret, bytes(16)),
    ]
    readers = [
        epoch.keystream(purpose, settings)
        for epoch in epochs
        for purpose in ("threshold", "perturb")
        for settings in (b"\0" * 32, b"\1" * 32)
    ]
    for first, second in itertools.combinations(readers, 2):
        assert unrelated(words(first), words(second))


def test_the_same_place_has_the_same_noise():
    again = Epoch(EPOCH.secret, EPOCH.id)
    place = {"chunk": 3, "tree": 2, "level": 1}
    first = words(EPOCH.keystream("perturb", b"s"), **place)
    assert np.array_equal(first, words(again.keystream("perturb", b"s"), **place))


# -- places: chunk, tree, level -----------------------------------------------------------------


@given(first=ADDRESS, second=ADDRESS)
def test_places_do_not_overlap(first, second):
    keystream = Keystream(bytes(range(32)))
    names = ("chunk", "tree", "level")
    one, two = (words(keystream, 8, **dict(zip(names, at, strict=True))) for at in (first, second))
    assert (first == second) == np.array_equal(one, two)
    assert first == second or np.intersect1d(one, two).size == 0


@pytest.mark.parametrize(
    "place",
    [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (5, 7, 3), (2**48 - 1, 2**32 - 1, 2**8 - 1)],
)
def test_the_layout_of_the_counter(place):
    # chunk (48) | tree (32) | level (8) | counter (40), by AES itself: disjoint, 2^40 blocks each.
    chunk, tree, level = place
    first_block = (chunk << 80) + (tree << 48) + (level << 40)
    key = bytes(range(32))
    encryptor = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()
    expected = encryptor.update(
        b"".join((first_block + index).to_bytes(16, "big") for index in range(5))
    )
    found = Keystream(key).at(chunk=chunk, tree=tree, level=level)
    pieces = [found.take(count) for count in (1, 3, 0, 6)]  # reading in pieces skips nothing
    assert np.concatenate(pieces).tobytes() == expected


@pytest.mark.parametrize(
    "place",
    [
        {"chunk": 2**48},
        {"tree": 2**32},
        {"level": 2**8},
        {"chunk": -1},
        {"tree": -1},
        {"level": -1},
    ],
)
def test_a_place_beyond_the_counter_is_refused(place):
    # Catches: a wrap-around onto noise that was used before.
    with pytest.raises(OverflowError):
        Keystream(bytes(32)).at(**place)


@pytest.mark.parametrize(
    "stage",
    [
        tg.perturb.Hierarchy(epsilon="0.01", horizon=2**20),
        tg.perturb.Hierarchy(epsilon=1, horizon=2**24, fanout=2, skipped=0),
        tg.perturb.Flat(epsilon=1, horizon=2**30),
    ],
    ids=str,
)
def test_no_place_needs_as_many_words_as_the_counter_has(stage):
    assert 1000 * stage.noise_law(100).grove_leaves < 2 * 2**40


def test_every_place_of_a_release_is_used_once(tools, monkeypatch, small_groves):
    # Catches: a grove or horizon whose noise is that of another.
    read = []
    at = Keystream.at
    monkeypatch.setattr(
        Keystream,
        "at",
        lambda self, **place: read.append(tuple(place.items())) or at(self, **place),
    )
    small_groves(8)
    release = tools.pipeline().start(tg.seeded(1))
    for piece in np.split(np.zeros(500), [3, 64, 65, 200, 333]):
        release.push(piece)
    assert len(read) == len(set(read))
    chunks, trees, levels = (
        {dict(place)[name] for place in read} for name in ("chunk", "tree", "level")
    )
    assert chunks == set(range(8))
    assert trees == set(range(4))
    assert levels == set(range(3))


# -- settings -----------------------------------------------------------------------------------

CHANGES = {
    "epsilon": {"perturber": {"epsilon": "1.000001"}},
    "theta": {"threshold": tg.threshold.Fixed(21)},
    "fanout": {"perturber": {"fanout": 4, "levels": 2}},
    "skipped": {"perturber": {"skipped": 0}},
    "levels": {"perturber": {"levels": 2}},
    "shares": {"perturber": {"shares": (2, 1, 1)}},
    "consistent": {"perturber": {"consistent": False}},
    "horizon": {"perturber": {"horizon": 66}},
    "resolution": {"resolution": "1/2"},
    "estimator": {"estimator": tg.estimate.Recent()},
    "non-negative": {"non_negative": True},
}


def test_any_changed_setting_changes_all_noise(tools, spy):
    # Catches: a setting that is missing in the digest. (Same epoch: only a seed can do that.)
    streams = {}
    for name, change in {"as it was": {}, **CHANGES}.items():
        tools.pipeline(**change).start(tg.seeded(7)).push(np.zeros(10))
        streams[name] = spy.last("perturb")
    for (_, first), (_, second) in itertools.combinations(streams.items(), 2):
        assert unrelated(words(first), words(second))
    assert len(set(spy.keys)) == len(spy.keys)


def test_what_was_decided_is_part_of_the_settings(tools, spy, monkeypatch):
    # Another version may decide on other levels or scales: then the noise must be other noise.
    pipeline = tools.pipeline(perturber={"levels": None})
    pipeline.start(tg.seeded(7)).push(np.zeros(10))
    monkeypatch.setattr("tidegate.perturb.hierarchy_and_flat.best_levels", lambda *_: 2)
    other = tools.pipeline(perturber={"levels": None})
    assert other.perturber.tree_levels != pipeline.perturber.tree_levels
    snapshot = pipeline.start(tg.seeded(7)).snapshot()
    other.start(tg.seeded(7)).push(np.zeros(10))
    assert unrelated(words(spy.keystreams["perturb"][0]), words(spy.last("perturb")))
    with pytest.raises(tg.SnapshotError):
        other.resume(snapshot)


def test_the_threshold_chosen_changes_the_stream_noise(spy):
    # The same settings, two choices of θ: two keys, so that no difference of outputs cancels noise.
    pipeline = tg.Pipeline(
        threshold=tg.threshold.NoisyMax(epsilon=9, bound=50, holdout=3, horizon=8, scale=10**9),
        perturber=tg.perturb.Flat(epsilon=1, horizon=8),
    )
    thresholds, keystreams = [], []
    for value in (2, 40):
        release = pipeline.start(tg.seeded(3))
        release.push(np.full(5, value))
        thresholds.append(release.threshold)
        keystreams.append(spy.last("perturb"))
    assert thresholds[0] != thresholds[1]
    assert unrelated(*(words(keystream) for keystream in keystreams))


def test_the_settings_of_the_threshold_stage_count_too(spy):
    # Catches: a digest in which θ takes the place of the stage that chose it.
    for epsilon in (9, 10):
        pipeline = tg.Pipeline(
            threshold=tg.threshold.NoisyMax(epsilon=epsilon, bound=1, holdout=3, horizon=8),
            perturber=tg.perturb.Flat(epsilon=1, horizon=8),
        )
        pipeline.start(tg.seeded(3)).push(np.zeros(5))
    assert unrelated(*(words(keystream) for keystream in spy.keystreams["perturb"]))


# -- epochs: start, resume, fork ----------------------------------------------------------------


def test_every_start_has_an_epoch_of_its_own(tools, spy):
    # Catches: noise by name, by settings or by a generator that was made once.
    pipeline = tools.pipeline()
    randomness = tg.secure()
    releases = [pipeline.start() for _ in range(20)] + [
        pipeline.start(randomness) for _ in range(20)
    ]
    assert len({release.epoch for release in releases}) == 40
    assert len({release._epoch.secret for release in releases}) == 40
    assert len(set(spy.keys)) == len(spy.keys)
    first, second = (release.push(np.zeros(640)) for release in releases[:2])
    assert np.mean(first[1::2] == second[1::2]) < 0.1


def test_resumed_noise_goes_on(tools):
    values = np.random.default_rng(1).integers(0, 30, size=300)
    pipeline = tools.pipeline()
    whole = pipeline.start(tg.seeded(9)).push(values)
    for cut in (0, 1, 63, 64, 65, 128, 177):
        release = pipeline.start(tg.seeded(9))
        head = release.push(values[:cut])
        resumed = pipeline.resume(release.snapshot())
        assert resumed.epoch == release.epoch
        assert np.array_equal(np.concatenate((head, resumed.push(values[cut:]))), whole)


def holdout_pipeline(epsilon=1):
    return tg.Pipeline(
        threshold=tg.threshold.NoisyMax(epsilon=epsilon, bound=50, holdout=6, horizon=64),
        perturber=tg.perturb.Flat(epsilon="1/2", horizon=64),
    )


def test_a_fork_has_other_noise_and_is_paid_by_both(tools):
    release = tools.pipeline().start()
    release.push(np.zeros(7))
    assert release.guarantee.epsilon == 1
    branch = release.fork()
    assert branch.epoch != release.epoch
    assert branch._epoch.secret != release._epoch.secret
    assert branch.guarantee == release.guarantee
    assert release.guarantee.epsilon == Fraction(2)
    again = branch.fork()
    assert {r.guarantee.epsilon for r in (release, branch, again)} == {Fraction(3)}
    first, second = release.push(np.zeros(641)), branch.push(np.zeros(641))
    assert np.mean(first[1:] == second[:-1]) < 0.6  # half of them are the smoother's zeros
    assert branch.threshold == release.threshold
    assert branch.position == release.position


@pytest.mark.parametrize("held", [0, 1, 5])
def test_a_fork_during_the_holdout_pays_for_both_stages(held, spy):
    release = holdout_pipeline().start()
    release.push(np.arange(held))
    branch = release.fork()
    assert branch.guarantee == release.guarantee
    assert release.guarantee.epsilon == 2  # max(1, 1/2), twice
    assert branch.holding == release.holding == 6 - held
    for each in (release, branch):
        each.push(np.full(7 - held, 3))
        assert each.position == 1
    assert len(set(spy.keys)) == 4  # two thresholds, two streams


def test_a_fork_after_the_holdout_pays_for_the_stream():
    release = holdout_pipeline().start()
    release.push(np.arange(9))
    branch = release.fork()
    assert branch.guarantee == release.guarantee
    assert release.guarantee.epsilon == Fraction(3, 2)


def test_forks_survive_a_snapshot(tools):
    pipeline = tools.pipeline()
    release = pipeline.start()
    branch = release.fork()
    for each in (release, branch):
        assert pipeline.resume(each.snapshot()).guarantee.epsilon == 2


def test_a_seed_is_no_guarantee(tools):
    release = tools.pipeline().start(tg.seeded(1))
    for each in (release, tools.pipeline().resume(release.snapshot())):
        assert str(each.guarantee).startswith("none (simulation)")
        assert each.guarantee.epsilon == float("inf")
        assert not each.guarantee.holds
        assert "none (simulation)" in repr(each)


@pytest.mark.parametrize("original_is_simulated", [True, False])
def test_a_simulated_branch_leaves_no_guarantee_to_the_other(tools, original_is_simulated):
    # Catches: raw values that leave through a branch whose noise everyone can subtract.
    seed = tg.seeded(1)
    release = tools.pipeline().start(seed if original_is_simulated else None)
    try:
        branch = release.fork(None if original_is_simulated else seed)
    except tg.TidegateError:
        return  # refusing is fine, too
    for each in (release, branch):
        assert not each.guarantee.holds
        assert not tools.pipeline().resume(each.snapshot()).guarantee.holds


def test_an_epoch_cannot_be_changed():
    with pytest.raises(AttributeError):
        EPOCH.id = b""
    assert replace(EPOCH, id=bytes(16)) != EPOCH


# -- threads ------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [0, [0]], ids=["one value", "array"])
def test_two_threads_never_share_noise(monkeypatch, values):
    # Catches: both read the noise of the present leaf before either moves on; the difference of the
    # two outputs is then raw data. Refusing the second thread is as good as letting it wait.
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(10**6), perturber=tg.perturb.Flat(epsilon="1/1000", horizon=64)
    )
    release = pipeline.start(tg.seeded(1))
    release.push(values)
    meeting = threading.Barrier(2)
    grove = ForestRun._grove

    def slow(self):
        found = grove(self)
        with contextlib.suppress(threading.BrokenBarrierError):
            meeting.wait(
                timeout=0.3
            )  # if the other thread can be here at the same time, it will be
        return found

    monkeypatch.setattr(ForestRun, "_grove", slow)
    released = []

    def work():
        with contextlib.suppress(tg.TidegateError):
            released.append(float(np.sum(release.push(values))))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert released
    assert len(set(released)) == len(released)
