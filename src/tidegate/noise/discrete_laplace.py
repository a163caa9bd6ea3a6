"""Exact discrete Laplace noise by lazily refined inversion, one word per sample.

**The law.** Let U be a real uniform on (0, 1] and

    |X| = k   if and only if   exp(−(k+1)/scale) < U ≤ exp(−k/scale),      k = 0, 1, 2, …

so P(|X| = k) = (1−q)·q^k with q = exp(−1/scale). With an independent fair sign, and "−0" thrown
away, P(X = k) ∝ q^|k| for every integer k.

**Why throwing −0 away is exact.** The attempt is judged by its finished outcome, (sign, |X|), and
nothing else; attempts are independent and alike. So the outcome kept has the law of one attempt
given that it is not −0: q^|k| for k ≠ 0, half from each sign, and q^0 for +0 alone. What is not
exact is to give up an attempt *half-way* because some word fell out of range: that favours
outcomes which read fewer words (see `uniform_below`). An attempt here is never given up.

**Refinement.** One word gives the sign and the first b = bits−1 binary places of U:
U ∈ [m, m+1)/2**b. Let E_k = 2**b·exp(−k/scale) and F_k = ⌊E_k⌋; for k ≥ 1, E_k is irrational
(`exponential_bounds`), so U < exp(−k/scale) holds if m < F_k, fails if m > F_k, and is open if
m = F_k. Let k be the largest with m < F_k (0 qualifies: F_0 = 2**b). If m > F_{k+1} then |X| = k.
Otherwise m = F_{k+1} and another word appends `bits` places to m. Whether one is read depends on m
alone, not on a float, so the words consumed and the noise are the same on every machine.

**Floats propose.** r·λ with r = scale and λ = −ln((m+½)/2**b) is in floats off by at most
r·(2**-43 [the assumption on np.log] + 2**-51 [rounding m+½] + 45·2**-51 [r and the product])
< r·2**-42, and the ends of the cell [m, m+1) are within 1/(2m) of its middle in λ. Where r·λ is
further than r·(2**-42 + 1/(2m)) (and 2**-50 for the comparison itself) from every integer, the
whole cell has one and the same k = ⌊r·λ⌋. Every other sample, and every m below a cut-off that
bounds 1/(2m) by a constant, is decided in integers: with words of 64 bits two in a million at
scale 1, fifty in a million at scale 10**8, and all from scale 2**40 on.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tidegate.noise._sampler_arguments import exact_sampler_argument, whole_sampler_argument
from tidegate.noise.exponential_enclosure import exponential_bounds
from tidegate.randomness import WordSource

# What is assumed of numpy: `np.log` is right to an absolute 2**-43 on [2**-64, 1], which is 16
# units in the last place of ln 2**-64; numpy's own accuracy tests allow 4. Tested against
# exact values.
LOG_ERROR = 2.0**-43

_PROPOSAL_ERROR = 2.0**-42
_COMPARISON_ERROR = 2.0**-50
_FLOAT_SCALES = 1 << 40  # beyond, every proposal would be in doubt
BLOCK = 1 << 14  # 128 kB an array: the block and its scratch stay in the cache
_FEW = 16  # up to this many samples are drawn faster without arrays

_LARGEST = (1 << 63) - 1
_ONE = np.uint64(1)


def discrete_laplace(words: WordSource, count: int, scale: Fraction) -> NDArray[np.int64]:
    """`count` independent integers with P(k) ∝ exp(−|k|/scale), exactly.

    Adding it to an integer of sensitivity Δ is (Δ/scale)-differentially private, with no
    float in the argument; see the module's docstring for why the law is exact. Noise is never
    clipped: a magnitude beyond int64 raises OverflowError (callers choose scales for which that
    never happens).

    >>> from tidegate.randomness import seeded
    >>> words = seeded(7).new_epoch().keystream("example", b"").at()
    >>> noise = discrete_laplace(words, 100_000, Fraction(25, 2))
    >>> noise.dtype
    dtype('int64')
    >>> bool(abs(noise.var() / discrete_laplace_variance(Fraction(25, 2)) - 1) < 0.03)
    True
    """
    count = whole_sampler_argument("count", count, minimum=0)
    scale = exact_sampler_argument("scale", scale)
    if count <= _FEW:
        return np.array(one_by_one(words, count, scale), dtype=np.int64)
    return in_arrays(words, count, scale)


def in_arrays(words: WordSource, count: int, scale: Fraction) -> NDArray[np.int64]:
    """`discrete_laplace` for many samples."""
    noise = np.empty(count, dtype=np.int64)
    inversion = LaplaceInversion(words, scale, min(count, BLOCK))
    done = 0
    while done < count:
        attempts = inversion.attempt(min(count - done, BLOCK))
        noise[done : done + attempts.size] = attempts
        done += attempts.size
    return noise


def one_by_one(words: WordSource, count: int, scale: Fraction) -> list[int]:
    """`discrete_laplace` for few samples: without arrays, the same numbers from the same words.

    `math.log` proposes instead of `np.log`, under the same assumption on its error; where that
    could matter, integers decide. Words are read in the order of `Inversion.attempt`.
    """
    bits, rough = words.bits - 1, float(scale)
    unit, least, doubt = 2.0**-bits, least_cell(bits), proposal_doubt(rough, bits)
    found: list[int] = []
    while len(found) < count:
        drawn = words.take(count - len(found)).tolist()
        magnitudes = [_proposed_laplace(word >> 1, unit, rough, least, doubt) for word in drawn]
        for place, magnitude in enumerate(magnitudes):
            if magnitude < 0:
                magnitudes[place] = decide_magnitude(words, drawn[place] >> 1, scale)
        for word, magnitude in zip(drawn, magnitudes, strict=True):
            if magnitude or not word & 1:  # −0 is thrown away
                found.append(-magnitude if word & 1 else magnitude)
    return found


def one_discrete_laplace(words: WordSource, scale: Fraction) -> int:
    """The result of `discrete_laplace(words, 1, scale)` as a plain number.

    >>> from tidegate.randomness import seeded
    >>> keystream = seeded(7).new_epoch().keystream("example", b"")
    >>> one_discrete_laplace(keystream.at(), Fraction(25, 2)) == int(
    ...     discrete_laplace(keystream.at(), 1, Fraction(25, 2))[0]
    ... )
    True
    """
    (found,) = one_by_one(words, 1, scale)
    return found


def _proposed_laplace(cell: int, unit: float, scale: float, least: int, doubt: float) -> int:
    """The magnitude in floats; −1: integers must decide."""
    product = -scale * math.log((cell + 0.5) * unit)
    magnitude = int(product)
    if cell < least or abs(product - magnitude - 0.5) >= 0.5 - doubt:
        return -1
    return magnitude


def least_cell(bits: int) -> int:
    """The cell below which integers decide."""
    return 1 << (7 * bits // 10)


def proposal_doubt(scale: float, bits: int) -> float:
    """How far from an integer a product must be to propose a magnitude; 1: none may."""
    if scale >= _FLOAT_SCALES:
        return 1.0
    return scale * (_PROPOSAL_ERROR + 0.5 / least_cell(bits)) + _COMPARISON_ERROR


def discrete_laplace_variance(scale: Fraction) -> float:
    """The variance 2q/(1−q)², q = exp(−1/scale): near 2·scale² if scale is large.

    `expm1` keeps 1−q accurate where q is nearly 1.

    >>> discrete_laplace_variance(Fraction(10**6))
    1999999999999.8333
    """
    scale = exact_sampler_argument("scale", scale)
    if scale > 10**150:
        raise OverflowError("the variance of so large a scale does not fit a float")
    inverse = float(min(1 / scale, Fraction(1000)))
    return 2.0 * math.exp(-inverse) / math.expm1(-inverse) ** 2


class LaplaceInversion:
    """Draws blocks of attempts, in arrays that are allocated once."""

    def __init__(self, words: WordSource, scale: Fraction, block: int) -> None:
        self._words = words
        self._scale = scale
        self._bits = words.bits - 1
        self._cells = np.empty(block, dtype=np.int64)
        self._product = np.empty(block, dtype=np.float64)
        self._floor = np.empty(block, dtype=np.float64)
        self._magnitudes = np.empty(block, dtype=np.int64)

    def attempt(self, count: int) -> NDArray[np.int64]:
        """The outcomes of `count` attempts, without those that gave −0."""
        drawn = self._words.take(count)
        cells = self._cells[:count]
        np.right_shift(drawn, _ONE, out=cells.view(np.uint64))
        outcomes, doubtful = self.propose(cells)
        for index in doubtful:
            outcomes[index] = decide_magnitude(self._words, int(cells[index]), self._scale)
        # With a sign mask of 0 or −1, (k ^ mask) − mask is k or −k; after the first step, −0 is
        # the only outcome that has become −1.
        sign_masks = cells
        np.bitwise_and(drawn, _ONE, out=sign_masks.view(np.uint64))
        np.negative(sign_masks, out=sign_masks)
        outcomes ^= sign_masks
        kept = outcomes != -1
        outcomes -= sign_masks
        return outcomes if kept.all() else outcomes[kept]

    def propose(self, cells: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """Magnitudes in floats, and the indices that integers must decide."""
        magnitudes = self._magnitudes[: cells.size]
        if self._scale >= _FLOAT_SCALES:
            return magnitudes, np.arange(cells.size)
        scale = float(self._scale)
        doubt = proposal_doubt(scale, self._bits)
        product = np.add(cells, 0.5, out=self._product[: cells.size])
        product *= 2.0**-self._bits
        np.log(product, out=product)
        product *= -scale
        floor = np.floor(product, out=self._floor[: cells.size])
        np.copyto(magnitudes, floor, casting="unsafe")
        product -= floor
        product -= 0.5
        np.abs(product, out=product)
        doubtful = product >= 0.5 - doubt
        doubtful |= cells < least_cell(self._bits)
        return magnitudes, np.flatnonzero(doubtful)


def decide_magnitude(words: WordSource, cell: int, scale: Fraction) -> int:
    """|X| of the U whose first bits−1 places are `cell`; reads more words while it is undecided."""
    bits = words.bits - 1
    while True:
        magnitude, next_floor = _locate_laplace_magnitude(cell, bits, scale)
        if cell > next_floor:
            if magnitude > _LARGEST:
                raise OverflowError("noise of this scale does not fit 64 bits")
            return magnitude
        cell = (cell << words.bits) | int(words.take(1)[0])
        bits += words.bits


def _locate_laplace_magnitude(cell: int, bits: int, scale: Fraction) -> tuple[int, int]:
    """The largest k with cell < F_k, and F_{k+1}.

    F falls in k, so this gallops from a float's guess (nearly always right: two evaluations) to
    a bracket, and bisects it. The guess changes the time this takes, never the result.
    """

    def floor_at(k: int) -> int:
        return exponential_bounds(k * scale.denominator, scale.numerator, bits)[0]

    middle = (bits + 1) * math.log(2.0) - math.log(2 * cell + 1)
    guess = max(0, int(Fraction(middle) * scale))
    low, high, high_floor = guess, guess, floor_at(guess)
    step = 1
    if cell < high_floor:
        while cell < high_floor:
            low, high = high, high + step
            high_floor = floor_at(high)
            step *= 2
    else:
        while True:
            low = max(0, high - step)
            low_floor = floor_at(low)
            if cell < low_floor:
                break
            high, high_floor = low, low_floor
            step *= 2
    while high - low > 1:
        middle_k = (low + high) // 2
        middle_floor = floor_at(middle_k)
        if cell < middle_floor:
            low = middle_k
        else:
            high, high_floor = middle_k, middle_floor
    return low, high_floor
