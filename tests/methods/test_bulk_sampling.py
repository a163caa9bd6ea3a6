"""What is found in bulk is what is found value by value: words, noise, decisions and state."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.noise import (
    USUAL_EDGE,
    USUAL_SCALES,
    discrete_laplace,
    edge,
    one_discrete_laplace,
    signed_logarithms,
)
from tidegate.noise.laplace_from_words import discrete_laplace_from, words_for
from tidegate.perturb.position_noise import MeasurementNoise, PositionNoise
from tidegate.perturb.rounding_by_addition import CENTRE, WHOLE
from tidegate.perturb.sampled_values import Stretch, one_by_one
from tidegate.state_as_bytes import state_of
from tidegate.units import Window

KEYSTREAM = tg.seeded(9).new_epoch().keystream("perturb", b"")
WINDOW = Window(length=9)
PIPELINES = {
    "absorption": tg.budget_absorption(epsilon=30, bound=100, unit=WINDOW),
    "distribution": tg.budget_distribution(epsilon=30, bound=100, unit=WINDOW),
    "absorption, long window": tg.budget_absorption(
        epsilon=900, bound=100, unit=Window(length=300)
    ),
    "distribution, long window": tg.budget_distribution(
        epsilon=900, bound=100, unit=Window(length=300)
    ),
    "distribution, much noise": tg.budget_distribution(epsilon="0.01", bound=100, unit=WINDOW),
    "rescue, much noise": tg.rescue_dp(epsilon="0.01", bound=100, unit=WINDOW),
    "sampling": tg.sampling(epsilon=30, bound=100, unit=WINDOW, every=4),
    "sampling, every value": tg.sampling(epsilon=30, bound=100, unit=WINDOW, every=1),
    "sampling, much noise": tg.sampling(epsilon="0.001", bound=100, unit=WINDOW, every=1),
    "sampling, hardly any": tg.sampling(epsilon=900, bound=3, unit=WINDOW, every=2, resolution=1),
    "fast": tg.fast(epsilon=30, bound=100, horizon=40),
    "rescue": tg.rescue_dp(epsilon=30, bound=100, unit=WINDOW),
}


@pytest.mark.parametrize(("chunk", "tree"), [(0, 0), (3, 65_530), (2**48 - 1, 2**32 - 16)])
def test_first_words_are_those_of_each_place(chunk: int, tree: int) -> None:
    words = KEYSTREAM.first_words(chunk=chunk, tree=tree, count=16, level=5)
    places = [KEYSTREAM.at(chunk=chunk, tree=tree + each, level=5) for each in range(16)]
    assert words.tolist() == [int(place.take(1)[0]) for place in places]


def test_no_place_beyond_the_last_is_enciphered() -> None:
    with pytest.raises(OverflowError):
        KEYSTREAM.first_words(chunk=0, tree=2**32 - 15, count=16)


@pytest.mark.parametrize("scale", [1, 7, 1000, 2**33 - 1, 2**33, 2**41])
def test_noise_of_a_measurement_is_that_of_its_place(scale: int) -> None:
    """Proposed from logarithms, or decided by integers: the number that the words give."""
    noise = MeasurementNoise(KEYSTREAM)
    for position in range(5000, 5600):
        chunk, tree = divmod(position, 1 << 20)
        words = KEYSTREAM.at(chunk=chunk, tree=tree)
        assert noise.of(position, scale) == one_discrete_laplace(words, Fraction(scale))


@pytest.mark.parametrize("scale", [1, 7, 1000, 2**33 - 1, 2**33, 2**41, 2**54])
@pytest.mark.parametrize("every", [1, 3, 700])
def test_regular_noise_is_that_of_each_place(scale: int, every: int) -> None:
    """Also over the end of a chunk, and where a draw is decided by integers."""
    for start in (77, (1 << 20) - 1000):
        noise, other = MeasurementNoise(KEYSTREAM), MeasurementNoise(KEYSTREAM)
        found = noise.regular(start, 40, every, scale).tolist()
        assert found == [other.of(start + at * every, scale) for at in range(40)]


def test_noise_of_many_measurements_is_that_of_their_places() -> None:
    """In any order, over the end of a chunk, and with the words after a −0 of all of them."""
    noise, chunk = MeasurementNoise(KEYSTREAM), 1 << 20
    for position, count in [
        (0, 8192), (8192, 100), (8292, 7000), (3, 5), (chunk - 5000, 8192), (chunk + 3192, 1500),
        (chunk - 1, 2), (20_000, 1), (19_999, 9000),
    ]:  # fmt: skip
        logarithms = noise.between(position, count)
        assert logarithms.size == count
        for off in sorted({0, count // 2, count - 1}):
            chunks, tree = divmod(position + off, chunk)
            (word,) = KEYSTREAM.at(chunk=chunks, tree=tree).take(1)
            assert logarithms[off] == signed_logarithms(np.array([word]))[0]
        kept = noise._kept
        for at in np.flatnonzero((logarithms < 0) & (logarithms > -0.02)).tolist():
            chunks, tree = divmod(position + at, chunk)
            expected = one_discrete_laplace(
                KEYSTREAM.at(chunk=chunks, tree=tree), Fraction(50)
            )  # a −0, so that the second word decides
            assert noise.scaled(float(logarithms[at]), 50, position + at) == expected
        assert noise._kept is kept  # nothing was drawn for it


def test_logarithms_decide_most_and_leave_what_is_near_an_integer() -> None:
    words = KEYSTREAM.first_words(chunk=7, tree=0, count=1000)
    products = 1000 * signed_logarithms(words)
    rest = np.abs(products - np.trunc(products))
    decided = (edge(1000) < rest) & (rest < 1 - edge(1000)) & ((products > 0) | (products < -1))
    assert np.count_nonzero(decided) > 990
    for tree in np.flatnonzero(decided).tolist():
        exact = one_discrete_laplace(KEYSTREAM.at(chunk=7, tree=tree), Fraction(1000))
        assert int(products[tree]) == exact
    assert signed_logarithms(np.array([6, 7], dtype=np.uint64)).tolist() == [0, 0]  # far too small


def test_the_usual_edge_is_wide_enough() -> None:
    """Loops use one edge for all scales below 2^33."""
    assert all(edge(scale) < USUAL_EDGE for scale in (1, 1000, USUAL_SCALES - 1))
    assert edge(USUAL_SCALES) > USUAL_EDGE / 2
    assert edge(2**40) >= 1  # integers decide all


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("filled", [0, 5])
def test_samplers_sweep_what_they_push(name: str, filled: int) -> None:
    """The same measurements in the same order, and the same state at every stop."""
    random = np.random.default_rng(2)
    values: list[int] = np.repeat(random.integers(0, 101, size=150), 20).tolist()
    stage: Any = PIPELINES[name].perturber
    runs = [stage.run(100, 100, KEYSTREAM) for _ in range(2)]
    slow, quick = (run._sampler for run in runs)
    noise = MeasurementNoise(KEYSTREAM)
    at = total = 0
    while at < len(values):
        stop = min(len(values), at + int(random.integers(1, 50)))
        opened, expected = at - filled, []
        ends = [end for end in range(at + 1, stop + 1) if end % 16 == 0]  # of blocks
        for place in range(at, stop):
            if scale := slow.push(values[place], place):
                number = values[place] + noise.of(place, scale)
                slow.measured(number, place + 1 - opened, scale)
                expected.append((place, number, scale))
                opened = place + 1
            elif place + 1 in ends:
                slow.measured(0, place + 1 - opened, 0)
                opened = place + 1
        stretch = Stretch(np.array(values), at, stop, at, filled, ends, noise)
        assert list(zip(*runs[1]._sweep(stretch), strict=True)) == expected
        assert state_of(slow) == state_of(quick)
        total += len(expected)
        at, filled = stop, stop - opened
    assert total > 50


def test_a_window_that_has_nothing_left_is_swept() -> None:
    """After a hundred measurements a long window is spent: whole stretches without one."""
    values = (np.random.default_rng(2).random(6000)[3000:] < 0.3).astype(np.int64)
    stage = tg.rescue_dp(epsilon=10_000, bound=100, unit=Window(length=300)).perturber
    slow, quick = (stage.run(100, 100, KEYSTREAM)._sampler for _ in range(2))
    noise = MeasurementNoise(KEYSTREAM)
    filled = empty = 0
    for at in range(0, values.size, 64):
        stretch = Stretch(values, at, min(at + 64, values.size), at, filled, (), noise)
        due = slow.due <= at
        expected = list(zip(*one_by_one(slow, stretch), strict=True))
        assert list(zip(*quick.sweep(stretch), strict=True)) == expected
        assert state_of(slow) == state_of(quick)
        empty += due and not expected
        filled = stretch.stop - expected[-1][0] - 1 if expected else filled + 64
    assert empty


@pytest.mark.parametrize(
    ("name", "constant", "wrong"),
    [
        ("distribution", "WHOLE", 2 * WHOLE),  # parts and scales are even numbers only
        ("distribution", "CENTRE", 2 * CENTRE),  # noise is
        ("rescue", "WHOLE", 2 * WHOLE),
        ("rescue", "CENTRE", 2 * CENTRE),
    ],
)
def test_a_float_that_was_rounded_wrongly_is_noticed(
    name: str, constant: str, wrong: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then `push` decides."""
    stage: Any = PIPELINES[name].perturber
    values = np.random.default_rng(4).integers(0, 101, size=3000)
    expected = stage.run(100, 100, KEYSTREAM).push(values)
    run = stage.run(100, 100, KEYSTREAM)
    module = sys.modules[type(run._sampler).__module__]
    assert getattr(module, constant) != wrong
    monkeypatch.setattr(module, constant, wrong)
    decided = 0

    def counted(*given: Any) -> Any:
        nonlocal decided
        decided += 1
        return one_by_one(*given)

    monkeypatch.setattr(module, "one_by_one", counted)
    found = run.push(values)
    assert decided
    for each in ("sums", "spans", "marks"):
        assert getattr(found, each).tolist() == getattr(expected, each).tolist()


@pytest.mark.parametrize(("off", "noticed"), [(1 + 1e-13, False), (1.3, True)])
def test_exponentials_of_the_library_only_propose(
    off: float, noticed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other last bits change nothing, state included; where a decision differs, `push` decides."""
    values = np.random.default_rng(4).integers(0, 101, size=3000)
    stage: Any = PIPELINES["rescue"].perturber
    slow, quick = (stage.run(100, 100, KEYSTREAM)._sampler for _ in range(2))
    stretch = Stretch(values, 0, values.size, 0, 0, (), MeasurementNoise(KEYSTREAM))
    expected = list(zip(*one_by_one(slow, stretch), strict=True))
    right, decided = math.exp, 0

    def counted(*given: Any) -> Any:
        nonlocal decided
        decided += 1
        return one_by_one(*given)

    monkeypatch.setattr(sys.modules[type(quick).__module__], "one_by_one", counted)
    monkeypatch.setattr(math, "exp", lambda power: right(power) * off)
    found = quick.sweep(stretch)
    assert bool(decided) == noticed
    assert list(zip(*found, strict=True)) == expected
    assert len(expected) > 300
    assert state_of(slow) == state_of(quick)


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(7, 3), Fraction(10**6), Fraction(1 << 41)])
def test_noise_from_words_read_ahead_is_that_of_its_source(scale: Fraction) -> None:
    """In order, without −0; what needs other words is left to the source."""
    sources = [KEYSTREAM.at(tree=tree).take for tree in range(20)]
    words = np.stack([take(words_for(50, scale)) for take in sources])
    rows = discrete_laplace_from(words, 50, scale)
    for tree, row in enumerate(rows):
        expected = discrete_laplace(KEYSTREAM.at(tree=tree), 50, scale)
        assert row is None or row.tolist() == expected.tolist()
    missing = sum(row is None for row in rows)
    assert missing == (20 if scale > 1 << 40 else 0)
    assert discrete_laplace_from(words[:, :49], 50, scale) == [None] * 20  # too few words


@pytest.mark.parametrize("scale", [1, 1 << 30, 1 << 41])
def test_noise_is_found_by_position_alone(scale: int) -> None:
    """Drawn ahead, again, and in any order."""
    here, there = PositionNoise(KEYSTREAM, {3: scale}), PositionNoise(KEYSTREAM, {3: scale})
    for position in (0, 1024, 2048, 6144, 5119, 1023, 3 << 20):
        (noise,), index = here.at(position)
        listed, place = there.ahead(position)
        source = KEYSTREAM.at(tree=position // 1024, level=3)
        expected = discrete_laplace(source, 1024, Fraction(scale))
        assert noise[index] == listed[place] == expected[position % 1024]
