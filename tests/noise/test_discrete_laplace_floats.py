"""The float proposals of the discrete Laplace sampler never overrule the integers."""

from __future__ import annotations

import sys
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from tidegate.noise import discrete_laplace, exponential_bounds
from tidegate.noise.discrete_laplace import LOG_ERROR, LaplaceInversion

MODULE = sys.modules["tidegate.noise.discrete_laplace"]  # the function of that name hides it


def proposals(exact, cells, bits, scale):
    inversion = LaplaceInversion(exact.ScriptedWords(bits, []), scale, cells.size)
    magnitudes, places = inversion.propose(cells)
    doubtful = np.zeros(cells.size, dtype=bool)
    doubtful[places] = True
    return magnitudes, doubtful


@pytest.mark.parametrize("bits", [12, 16, 18])
@pytest.mark.parametrize("scale", [Fraction(1, 3), 1, Fraction(3, 2), 7, Fraction(99, 2)], ids=str)
def test_all_words_of_small_widths(exact, scale, bits):
    scale = Fraction(scale)
    floors = []
    while not floors or floors[-1]:
        k = len(floors) + 1
        floors.append(exponential_bounds(k * scale.denominator, scale.numerator, bits - 1)[0])
    cells = np.arange(1 << (bits - 1))
    truth = np.searchsorted(-np.array(floors), -cells, side="left")  # how many F_k exceed the cell
    is_open = np.isin(cells, floors)
    magnitudes, doubtful = proposals(exact, cells, bits, scale)
    assert np.array_equal(magnitudes[~doubtful], truth[~doubtful])
    assert not (is_open & ~doubtful).any()
    # The doubts are few enough for the above to mean something, and they are needed.
    assert doubtful.mean() < (0.5 if bits > 12 or scale < 10 else 1)
    assert is_open.any()


@pytest.mark.parametrize(
    "scale", [Fraction(1, 50), 1, Fraction(2**20, 3), 10**4, 10**8, 10**10, 10**12], ids=str
)
def test_words_of_64_bits_near_the_ends(exact, keystream, scale):
    scale = Fraction(scale)

    def floor_at(k):
        return exponential_bounds(int(k) * scale.denominator, scale.numerator, 63)[0]

    offsets = [-1, 0, 1, 2, *(s * ((1 << p) + 1) for p in range(1, 56, 3) for s in (-1, 1))]
    exponents = np.random.default_rng(1).exponential(size=40)
    ends = [floor_at(max(1, Fraction(exponent) * scale)) for exponent in exponents]
    cells = [end + offset for end in ends for offset in offsets if 0 <= end + offset < 1 << 63]
    magnitudes, doubtful = proposals(exact, np.array(cells), 64, scale)
    for cell, magnitude, doubt in zip(cells, magnitudes, doubtful, strict=True):
        assert doubt or floor_at(magnitude + 1) < cell < floor_at(magnitude)
    assert scale == 10**12 or not doubtful.all()
    # The whole sampler, with random words to refine the cells that hold an end.
    script = np.array(cells, dtype=np.uint64) << np.uint64(1)
    words = exact.ScriptedWords(64, script, then=keystream(1))
    noise = discrete_laplace(words, len(cells), scale)
    assert words.taken > len(cells)
    for cell, magnitude in zip(cells, noise, strict=True):
        assert floor_at(magnitude + 1) <= cell <= floor_at(magnitude)


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(1000, 3), Fraction(10**9)], ids=str)
def test_floats_change_neither_noise_nor_words_read(exact, keystream, monkeypatch, scale):
    """The integers alone, from the same words, give the same noise and read as many."""

    def draw():
        words = exact.ScriptedWords(64, [], then=keystream(4))
        return discrete_laplace(words, 3000, scale).tolist(), words.taken

    fast = draw()
    monkeypatch.setattr(MODULE, "_FLOAT_SCALES", 0)
    assert draw() == fast


def test_log_of_numpy_is_as_accurate_as_assumed():
    generator = np.random.default_rng(5)
    cells = [
        *generator.integers(0, 1 << 63, size=1000).tolist(),
        *(generator.integers(0, 1 << 63, size=620) >> np.arange(620) // 10).tolist(),
        *((1 << power) + offset for power in range(8, 63) for offset in (-3, -1, 0, 1, 3)),
        *((1 << 63) - (1 << power) for power in range(62)),
        *range(20),
    ]
    middles = (np.array(cells, dtype=np.int64) + 0.5) * 2.0**-63
    logs = np.log(middles)
    with localcontext() as context:
        context.prec = 40
        for middle, log in zip(middles.tolist(), logs.tolist(), strict=True):
            assert abs(Decimal(log) - Decimal(middle).ln()) < Decimal(LOG_ERROR) / 2
