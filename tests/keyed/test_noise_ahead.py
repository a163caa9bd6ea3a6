"""Noise of many keys at once is the noise of each key's own stream, whatever was drawn with it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

import tidegate as tg
from tidegate.keyed.fixed_array_engine import FixedArrayEngine
from tidegate.keyed.key_names import KeyNames
from tidegate.keyed.noise_cache import GroveCache
from tidegate.keyed.noise_of_many_keys import GroveNoise
from tidegate.noise import discrete_laplace
from tidegate.noise.laplace_from_words import discrete_laplace_rows
from tidegate.perturb.forest_geometry import Forest

LAW = Forest(3, 27, (Fraction(40), Fraction(90, 7), Fraction(5)))


def test_keys_and_places_are_those_of_single_streams() -> None:
    epoch, names = tg.seeded(5).new_epoch(), KeyNames(["a", "ü", "7"])
    codes, chunks, groves = np.array([2, 0, 1, 0]), np.array([0, 3, 1, 0]), np.array([0, 0, 2, 1])
    carries = np.array([0.0, 0.25, -0.5, 0.1])
    rows, after = GroveNoise(epoch, names, LAW, b"law").make(codes, chunks, groves, carries)
    for row, code in enumerate(codes.tolist()):
        stream = epoch.of_key(names.names[code]).keystream("perturb", b"law")
        nodes = LAW.nodes(stream, int(chunks[row]), int(groves[row]))
        leaves, carry = LAW.combine(nodes, float(carries[row]))
        assert rows[row].tolist() == leaves.tolist()
        assert after[row] == carry


def test_rows_that_need_more_words_are_named() -> None:
    """At a scale of 1 a quarter of the samples is −0; the rows without are right as they are."""
    sources = [tg.seeded(seed).new_epoch().keystream("x", b"") for seed in range(300)]
    words = np.stack([one.at().take(4) for one in sources])
    for scale in (Fraction(1), Fraction(1000), Fraction(1 << 41)):
        noise, others = discrete_laplace_rows(words, scale)
        expected = np.stack([discrete_laplace(one.at(), 4, scale) for one in sources])
        whole = np.setdiff1d(np.arange(300), others)
        assert (noise[whole] == expected[whole]).all()
        assert others.size == 300 if scale > 1 << 40 else others.size < 250


def test_grove_after_grove_is_that_of_the_source_whatever_was_made_ahead() -> None:
    """Keys at different places, over horizons, with noise that is made early, late or not ahead."""
    law = Forest(3, 45, (Fraction(40), Fraction(90, 7)))
    names = KeyNames([str(code) for code in range(7)])
    source = GroveNoise(tg.seeded(9).new_epoch(), names, law, b"law")
    groves, leaves = 40, law.grove_leaves
    carries, expected = np.zeros(7), []
    for grove in range(groves):
        chunk, within = divmod(grove, law.leaves // leaves)
        carries = carries if within else np.zeros(7)
        places = np.full(7, chunk), np.full(7, within)
        rows, carries = source.make(np.arange(7), *places, carries)
        expected.append(rows)
    random, at = np.random.default_rng(3), np.zeros(7, dtype=np.int64)
    cache = GroveCache(law, source)
    cache.grow(7)
    cache.expect(np.arange(7))
    while (at < groves * leaves).all():
        some = np.flatnonzero(random.random(7) < 0.6)
        found = cache.take(some, at[some])
        truth = [expected[at[code] // leaves][code, at[code] % leaves] for code in some]
        assert found.tolist() == truth
        at[some] += 1
        cache.make_ahead(int(random.integers(0, 9)))


def test_a_fleet_that_begins_makes_its_noise_evenly() -> None:
    """Caught: next groves were made beside the first ones, whose tick is the longest anyway."""
    made: list[int] = []

    class Counting(GroveNoise):
        def make(self, codes: Any, *where: Any) -> Any:
            made.append(codes.size)
            return super().make(codes, *where)

    method = tg.Pipeline(
        threshold=tg.threshold.Fixed(50),
        perturber=tg.perturb.Hierarchy(epsilon="0.1", horizon=64, fanout=4, skipped=2),
    )
    release = tg.keyed(method, keys=range(800)).start(record=False)
    keys, engine = np.arange(800), release._engine
    assert isinstance(engine, FixedArrayEngine)
    engine._noise._source.__class__ = Counting
    ticks = []
    for _ in range(200):
        release.push(keys, np.ones(800))
        ticks.append(sum(made))
        made.clear()
    assert max(ticks) == 800 // 16 + 1
    assert sum(ticks) > 4 * 800  # the noise of three horizons, and the next one's ahead


def test_noise_beyond_32_bits_is_kept_whole() -> None:
    law = Forest(2, 8, (Fraction(1 << 33),))
    epoch, names = tg.seeded(1).new_epoch(), KeyNames(["a", "b"])
    source = GroveNoise(epoch, names, law, b"law")
    cache = GroveCache(law, source)
    cache.grow(2)
    codes, zeros = np.array([0, 1]), np.array([0, 0])
    found = [cache.take(codes, np.full(2, leaf)) for leaf in range(8)]
    rows, _ = source.make(codes, zeros, zeros, np.zeros(2))
    assert np.array_equal(np.stack(found, axis=1), rows)
    assert np.abs(rows).max() > 1 << 31


def test_noise_that_is_larger_than_its_scale_allows_is_kept_whole() -> None:
    class Large(GroveNoise):
        def make(self, *where: Any) -> Any:
            rows, carries = super().make(*where)
            return rows + (1 << 40), carries

    epoch, names = tg.seeded(1).new_epoch(), KeyNames(["a", "b"])
    source = Large(epoch, names, LAW, b"law")
    cache = GroveCache(LAW, source)
    cache.grow(2)
    found = cache.take(np.array([0, 1]), np.array([0, 0]))
    assert (found > 1 << 39).all()


def test_the_length_of_kept_noise_does_not_tell_how_large_it_is() -> None:
    """Caught: it took 64 bits from the first leaf on that needed them, and is in sealed states."""
    for scale in (1 << 20, 1 << 25, 1 << 29, 1 << 30, 1 << 33):
        law = Forest(2, 8, (Fraction(scale),))
        lengths = set()
        for seed in range(30):
            cache = GroveCache(
                law, GroveNoise(tg.seeded(seed).new_epoch(), KeyNames(["a"]), law, b"")
            )
            cache.grow(1)
            cache.take(np.array([0]), np.array([0]))
            lengths.add(cache.kept(np.array([0]), np.array([1]), 5)["noise"].nbytes)
        assert lengths == {5 * (4 if scale <= 1 << 25 else 8)}
