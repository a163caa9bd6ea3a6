"""Private choices of a candidate with (nearly) the highest score."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import SettingError
from tidegate.noise._sampler_arguments import exact_sampler_argument
from tidegate.noise.bernoulli import bernoulli_exp, proposed_exp
from tidegate.noise.uniform import uniform_below
from tidegate.randomness import WordSource

_ATTEMPTS = 256  # of the exponential mechanism, made at once
SPARE_WORDS = 8  # of a row, for the choice among successes: nine in ten need one, or none


def permute_and_flip(words: WordSource, scores: NDArray[np.int64], rate: Fraction) -> int:
    """The index of a candidate, chosen by permute-and-flip (McKenna and Sheldon 2020).

    The sequential mechanism visits the candidates in a uniformly random order, flips a coin of
    probability p_i = exp(−rate·(max(scores) − scores_i)) for each, and stops at the first success.
    A best candidate has p = 1, so there is one.

    **Flipping all coins at once is the same.** The coins do not depend on the order, so flip all
    of them first. The first success in a uniformly random order is then the first of the successes
    in a uniformly random order: a uniform choice among ALL successes, and the order of the
    others is never needed.

    **Privacy.** Let every candidate arrive at an independent uniform time in [0, 1]; then i is
    chosen if it succeeds, at time t, and no other has arrived and succeeded before t:

        P(i) = p_i·h(p),   h(p) = ∫₀¹ Π_{j≠i} (1 − p_j·t) dt.

    h falls as any p_j rises, and for c ≥ 1, substituting t → t/c,
    h(p) ≥ ∫₀^{1/c} Π(1 − p_j·t) dt = h(p/c)/c, that is h(p/c) ≤ c·h(p).

    *Monotone* scores: between neighbours every score moves the same way, say up by δ_j ∈ [0, 1].
    Then the maximum rises by some μ ∈ [0, 1], and exp(−rate·μ)·p_j ≤ p'_j ≤ exp(rate·(1−μ))·p_j.
    So P'(i) ≤ exp(rate·(1−μ))·p_i · exp(rate·μ)·h(p) = exp(rate)·P(i), and the same the other way
    round: with sensitivity 1, **rate = ε is ε-private**.

    *Other* scores: go from s to max(s, s') and from there to s', two monotone steps. The loss is at
    most 2·rate, and two candidates that move apart attain it: **rate = ε/2 is ε-private**.

    The coins and the choice are exact, so the guarantee is, up to the keystream. A spread of scores
    beyond int64 raises OverflowError.

    >>> from tidegate.randomness import seeded
    >>> words = seeded(7).new_epoch().keystream("example", b"").at()
    >>> permute_and_flip(words, np.array([3, 900, 5]), rate=Fraction(1))
    1
    """
    below, rate = _selection_below_best(scores, rate)
    successes = np.flatnonzero(bernoulli_exp(words, below, rate))
    return int(successes[uniform_below(words, successes.size)])


def permute_and_flip_rows(
    words: NDArray[np.uint64], scores: NDArray[np.int64], rate: Fraction
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Many choices: row r is what `permute_and_flip` gives for words that begin with its words.

    Args:
        words: the first words of each source, of 64 bits: one for each candidate, and spare ones.
        scores: a row for each choice.
        rate: of all of them.

    Returns:
        The choices, and the rows that would read more words, which are to be made by
        `permute_and_flip`: integers must decide a coin, or the spare words were not enough.
    """
    count = scores.shape[1]
    best = scores.max(axis=1, keepdims=True)
    if int(best.max()) - int(scores.min()) > np.iinfo(np.int64).max:
        raise OverflowError("the spread of the scores does not fit 64 bits")
    coins, doubtful = proposed_exp(words[:, :count], 64, best - scores, rate)
    open_: NDArray[np.bool_] = np.asarray(doubtful.any(axis=1))
    successes = coins.sum(axis=1)
    # `uniform_below` for each row: take the leading bits of a word, until they are below.
    surplus = np.array([64 - max(each - 1, 1).bit_length() for each in range(count + 1)])
    picked = np.zeros(successes.size, dtype=np.int64)
    waiting = np.flatnonzero((successes > 1) & ~open_)
    for at in range(count, words.shape[1]):
        if not waiting.size:
            break
        shifts = surplus[successes[waiting]].astype(np.uint64)
        picked[waiting] = words[waiting, at] >> shifts
        waiting = waiting[picked[waiting] >= successes[waiting]]
    open_[waiting] = True
    chosen = np.argmax(coins.cumsum(axis=1) > picked[:, np.newaxis], axis=1)
    return chosen, np.flatnonzero(open_)


def exponential_mechanism(words: WordSource, scores: NDArray[np.int64], rate: Fraction) -> int:
    """The index of a candidate, by the exponential mechanism (McSherry and Talwar 2007).

    P(i) = p_i/Σ p_j with p_i = exp(−rate·(max(scores) − scores_i)): draw a candidate uniformly and
    flip its coin, until one succeeds. Attempts are independent and alike, so the one that is kept
    has that law. Permute-and-flip is never worse, and better where candidates are few.

    **Privacy.** *Monotone* scores of sensitivity 1: exp(rate·scores_i) and the sum of all such
    weights both rise, by a factor in [1, exp(rate)], or both fall. So P(i) moves by at most
    exp(rate): **rate = ε is ε-private**. *Other* scores move them apart: **rate = ε/2**.

    >>> from tidegate.randomness import seeded
    >>> words = seeded(7).new_epoch().keystream("example", b"").at()
    >>> exponential_mechanism(words, np.array([3, 900, 5]), rate=Fraction(1))
    1
    """
    below, rate = _selection_below_best(scores, rate)
    even = (1 << words.bits) // below.size * below.size  # a word beyond would favour the first
    while True:
        drawn = words.take(_ATTEMPTS)
        places = (drawn[drawn < even] if even < 1 << words.bits else drawn) % below.size
        index = places.astype(np.int64)
        successes = np.flatnonzero(bernoulli_exp(words, below[index], rate))
        if successes.size:
            return int(index[successes[0]])


def _selection_below_best(
    scores: NDArray[np.int64], rate: Fraction
) -> tuple[NDArray[np.int64], Fraction]:
    """How far each score is below the best; refuses invalid scores."""
    rate = exact_sampler_argument("rate", rate, allow_zero=True)
    scores = np.asarray(scores)
    if scores.ndim != 1 or scores.dtype != np.int64 or scores.size == 0:
        raise SettingError("scores", "must be a non-empty, one-dimensional array of int64")
    best = scores.max()
    if int(best) - int(scores.min()) > np.iinfo(np.int64).max:
        raise OverflowError("the spread of the scores does not fit 64 bits")
    return best - scores, rate
