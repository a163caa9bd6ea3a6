"""Exact discrete Gaussian noise: discrete Laplace proposals, each kept by an exact coin.

**The law.** P(k) ∝ exp(−k²/(2σ²)) for every integer k; σ² is a fraction, exact.

**The sampler** (Canonne, Kamath, Steinke 2020). Let t = ⌊σ⌋ + 1. Propose X with P(k) ∝ exp(−|k|/t),
and keep it with probability exp(−(|X| − σ²/t)²/(2σ²)). For every k the product is

    exp(−|k|/t − (|k| − σ²/t)²/(2σ²)) = exp(−k²/(2σ²))·exp(−σ²/(2t²)),

and the second factor does not depend on k: what is kept has the law above, exactly. Attempts are
independent, alike, and judged by their finished outcome only, so redrawing changes nothing. At
least one attempt in two is kept.

**Floats propose.** The coin's exponent x = (|X| − σ²/t)²/(2σ²) is computed in floats with an
absolute error below (√(2x) + 5x)·2**-53 (σ²/t ≤ σ is rounded once, the difference, the square and
the quotient once each). That is below 2**-45 where 2**64·exp(−x) ≥ 1, which is what
`propose_coins` asks for; all coins that floats leave open are decided by integers.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import SettingError
from tidegate.noise._sampler_arguments import exact_sampler_argument, whole_sampler_argument
from tidegate.noise.bernoulli import decide_coin, propose_coins
from tidegate.noise.discrete_laplace import discrete_laplace
from tidegate.randomness import WordSource

# Below, the noise is 0 for every practical purpose; above, draws come near the end of 64 bits.
_SMALLEST, LARGEST_VARIANCE = Fraction(1, 1 << 20), 1 << 100
# From here on the variance of the discrete law is σ² to within e^(−2π²·4): less than a float shows.
_SMOOTH = 4


def discrete_gaussian(words: WordSource, count: int, variance: Fraction) -> NDArray[np.int64]:
    """`count` independent integers with P(k) ∝ exp(−k²/(2·variance)), exactly.

    Adding it to a vector of integers with L2 sensitivity Δ is Δ²/(2·variance)-zCDP (concentrated
    differential privacy; Bun and Steinke 2016), as with the continuous law, and with no float in
    the argument. Noise is never clipped.

    >>> from tidegate.randomness import seeded
    >>> words = seeded(7).new_epoch().keystream("example", b"").at()
    >>> noise = discrete_gaussian(words, 100_000, Fraction(625, 4))
    >>> noise.dtype
    dtype('int64')
    >>> bool(abs(noise.var() / 156.25 - 1) < 0.03)
    True
    """
    count = whole_sampler_argument("count", count, minimum=0)
    variance = _checked_gaussian(variance)
    scale = math.isqrt(variance.numerator // variance.denominator) + 1
    centre = variance / scale
    noise = np.empty(count, dtype=np.int64)
    done = 0
    while done < count:
        proposals = discrete_laplace(words, count - done, Fraction(scale))
        kept = proposals[_kept_gaussian(words, np.abs(proposals), centre, variance)]
        noise[done : done + kept.size] = kept
        done += kept.size
    return noise


def discrete_gaussian_variance(variance: Fraction) -> float:
    """The variance of the discrete law: below σ² for small σ, σ² itself from 2 on.

    >>> discrete_gaussian_variance(Fraction(1, 4)), discrete_gaussian_variance(Fraction(100))
    (0.21501..., 100.0)
    """
    variance = _checked_gaussian(variance)
    if variance >= _SMOOTH:
        return float(variance)
    squares = np.arange(1, 64, dtype=np.float64) ** 2
    weights = np.exp(-squares / (2 * float(variance)))
    return float(2 * (weights * squares).sum() / (1 + 2 * weights.sum()))


def _checked_gaussian(variance: Fraction) -> Fraction:
    exact = exact_sampler_argument("variance", variance)
    if not _SMALLEST <= exact <= LARGEST_VARIANCE:
        raise SettingError("variance", f"must lie between {_SMALLEST} and 2**100")
    return exact


def _kept_gaussian(
    words: WordSource, magnitudes: NDArray[np.int64], centre: Fraction, variance: Fraction
) -> NDArray[np.bool_]:
    """Flip a coin for each proposal: exp(−(magnitude − centre)²/(2·variance))."""
    word = words.take(magnitudes.size)
    negated = magnitudes.astype(np.float64)
    negated -= float(centre)
    np.square(negated, out=negated)
    negated /= -float(2 * variance)
    coins, doubtful = propose_coins(word, words.bits, negated)
    for index in np.flatnonzero(doubtful):
        exponent = (int(magnitudes[index]) - centre) ** 2 / (2 * variance)
        coins[index] = decide_coin(words, int(word[index]), exponent)
    return coins
