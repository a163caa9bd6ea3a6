"""**Offline**: a few noisy Fourier coefficients of the whole stream, and the stream they make.

With the orthonormal real Fourier basis the coefficients of a stream are a rotation of it. Replacing
one value, which lies in [0, θ], moves them by at most θ in L2, and so by at most √n·θ in L1 for any
n of them: Laplace noise of scale √n·θ/ε on each of n coefficients is ε-private, for one event.
Computed in floats: the guarantee says so.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

import tidegate as tg

Floats = NDArray[np.float64]


def guarantee(epsilon: float) -> tg.Guarantee:
    """ε for an event, in floats; here with seeded noise, for public samples only."""
    return tg.Guarantee(epsilon=Fraction(str(epsilon)), arithmetic="float")


def coefficients(values: Floats) -> Floats:
    """Orthonormal, real, lowest frequency first: constant, cos, sin, cos, sin, …

    >>> coefficients(np.array([1.0, 1.0, 1.0, 1.0]))
    array([2., 0., 0., 0.])
    """
    spectrum = np.fft.rfft(values, norm="ortho")
    weights = np.full(spectrum.size, np.sqrt(2.0))
    weights[0] = 1.0
    if values.size % 2 == 0:
        weights[-1] = 1.0  # the highest frequency has no partner
    pairs = np.column_stack((spectrum.real, spectrum.imag)) * weights[:, None]
    found: Floats = pairs.ravel()[_places(values.size)]
    return found


def series(kept: Floats, size: int) -> Floats:
    """The stream of `size` values with these coefficients and no others."""
    pairs = np.zeros(2 * (size // 2 + 1))
    pairs[_places(size)[: kept.size]] = kept
    pairs = pairs.reshape(-1, 2) / np.sqrt(2.0)
    pairs[0] *= np.sqrt(2.0)
    if size % 2 == 0:
        pairs[-1] *= np.sqrt(2.0)
    made: Floats = np.fft.irfft(pairs[:, 0] + 1j * pairs[:, 1], n=size, norm="ortho")
    return made


def _places(size: int) -> NDArray[np.int64]:
    """Where the coefficients are among real and imaginary parts, but those that are always 0."""
    places = np.arange(2 * (size // 2 + 1))
    without = [1, places[-1]] if size % 2 == 0 else [1]
    return np.setdiff1d(places, without)


def fpa(values: Floats, epsilon: float, theta: float, seed: int, kept: int = 21) -> Floats:
    """Rastogi and Nath (SIGMOD 2010): the first `kept` coefficients, each with noise √kept·θ/ε.

    **Privacy**: ε for one event; `kept` is public. See the module.
    """
    first = coefficients(np.clip(values, 0, theta))[:kept]
    return series(_noisy(first, theta, epsilon, np.random.default_rng(seed)), values.size)


def efpa(values: Floats, epsilon: float, theta: float, seed: int) -> Floats:
    """Acs, Castelluccia and Chen (ICDM 2012): how many coefficients to keep is chosen privately.

    **Privacy**: ε for one event. Half of ε chooses n from 1, 3, 7, 15, … by the exponential
    mechanism: the score of n is −(what the others weigh in L2) − (the noise of n in L2, public).
    The first part moves by at most θ between neighbours, so scores in units of θ have sensitivity
    1, in both directions: rate ε/4. The other half is the noise of `fpa`.
    """
    random = np.random.default_rng(seed)
    found = coefficients(np.clip(values, 0, theta))
    counts = np.minimum(2 ** np.arange(1, found.size.bit_length() + 1) - 1, found.size)
    energy = np.append(np.square(found)[::-1].cumsum()[::-1], 0.0)
    noise = np.sqrt(2.0) * counts * 2 / epsilon  # n coefficients of deviation √2·√n·2θ/ε each
    scores = -np.sqrt(energy[counts]) / theta - noise
    # The largest of rate·score + Gumbel noise is the choice of the exponential mechanism.
    chosen = int(counts[np.argmax(epsilon / 4 * scores + random.gumbel(size=counts.size))])
    return series(_noisy(found[:chosen], theta, epsilon / 2, random), values.size)


def _noisy(kept: Floats, theta: float, epsilon: float, random: np.random.Generator) -> Floats:
    return kept + random.laplace(scale=np.sqrt(kept.size) * theta / epsilon, size=kept.size)


OFFLINE: dict[str, Callable[..., Floats]] = {
    "Fourier, 21 coefficients (Rastogi–Nath)": fpa,
    "Fourier, number chosen (Acs–Castelluccia)": efpa,
}
