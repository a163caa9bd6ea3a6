"""What is found in bulk is what is found value by value: words, noise, decisions and state."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.noise import discrete_laplace_of_word, one_discrete_laplace
from tidegate.sealing import state_of
from tidegate.units import Window

KEYSTREAM = tg.seeded(9).new_epoch().keystream("perturb", b"")
WINDOW = Window(length=9)
PIPELINES = {
    "absorption": tg.budget_absorption(epsilon=30, bound=100, unit=WINDOW),
    "distribution": tg.budget_distribution(epsilon=30, bound=100, unit=WINDOW),
    "sampling": tg.sampling(epsilon=30, bound=100, unit=WINDOW, every=4),
    "fast": tg.fast(epsilon=30, bound=100, horizon=40),
    "rescue": tg.rescue_dp(epsilon=30, bound=100, unit=WINDOW),
}


@pytest.mark.parametrize(("chunk", "tree"), [(0, 0), (3, 65_530), (2**48 - 1, 2**32 - 16)])
def test_first_words_are_those_of_each_place(chunk: int, tree: int) -> None:
    words = KEYSTREAM.first_words(chunk=chunk, tree=tree, count=16, level=5)
    places = [KEYSTREAM.at(chunk=chunk, tree=tree + each, level=5) for each in range(16)]
    assert words == [int(place.take(1)[0]) for place in places]


def test_no_place_beyond_the_last_is_enciphered() -> None:
    with pytest.raises(OverflowError):
        KEYSTREAM.first_words(chunk=0, tree=2**32 - 15, count=16)


@pytest.mark.parametrize("scale", [1, 7, 1000, 10**9, 2**41])
def test_noise_of_a_word_is_that_of_its_source(scale: int) -> None:
    decided = 0
    for tree, word in enumerate(KEYSTREAM.first_words(chunk=7, tree=0, count=500)):
        noise = discrete_laplace_of_word(word, scale)
        if noise is not None:
            source = KEYSTREAM.at(chunk=7, tree=tree)
            assert noise == one_discrete_laplace(source, Fraction(scale))
            decided += 1
    assert decided > 300 or scale > 2**40  # beyond, integers must decide every one


@pytest.mark.parametrize("name", PIPELINES)
def test_samplers_find_what_they_push(name: str) -> None:
    """The same measurements in the same order, and the same state at every stop."""
    random = np.random.default_rng(2)
    values: list[int] = np.repeat(random.integers(0, 101, size=150), 20).tolist()
    stage: Any = PIPELINES[name].perturber
    slow, quick = (stage.sampler(100, KEYSTREAM) for _ in range(2))
    at = measured = 0
    while at < len(values):
        stop = min(len(values), at + int(random.integers(1, 50)))
        found, scale = quick.find(values, at, stop, at)
        expected = next(
            ((place, one) for place in range(at, stop) if (one := slow.push(values[place], place))),
            (stop, 0),
        )
        assert (found, scale) == expected
        if scale:
            for sampler in (slow, quick):
                sampler.measured(values[found] + scale, found - at + 1, scale)
            measured += 1
        assert state_of(slow) == state_of(quick)
        at = found + 1 if scale else stop
    assert measured > 50
