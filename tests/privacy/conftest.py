"""Tools of the privacy tests: exact laws, tests of fit, audits, and spies on the keystream."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import tidegate as tg
from tidegate.perturb import hierarchy_and_flat
from tidegate.randomness import Epoch, Keystream

# -- laws ---------------------------------------------------------------------------------------


def laplace_pmf(values, scale):
    """P(X = k) of the discrete Laplace law: (1−q)/(1+q)·q^|k|, q = exp(−1/scale)."""
    q = math.exp(-1 / float(scale))
    return (1 - q) / (1 + q) * q ** np.abs(np.asarray(values, dtype=np.float64))


def laplace_variance(scale):
    """2q/(1−q)²."""
    q = math.exp(-1 / float(scale))
    return 2 * q / (1 - q) ** 2


def incidence(fanout: int, levels: int, leaf: int) -> list[int]:
    """The node of each level, leaves first, that a leaf lies in: a column of A."""
    return [leaf // fanout**level for level in range(levels)]


def node_sums(leaves, fanout: int, levels: int) -> list[np.ndarray]:
    """A·u: what a stream adds to every node, leaves first."""
    sums = [np.asarray(leaves, dtype=np.int64)]
    for _ in range(levels - 1):
        sums.append(sums[-1].reshape(-1, fanout).sum(axis=1))
    return sums


# -- tests of fit -------------------------------------------------------------------------------


def fits_laplace(samples, scale, significance: float = 1e-6) -> bool:
    """Whether integers look like independent discrete Laplace draws of this scale (χ²)."""
    samples = np.asarray(samples)
    edges = np.unique(
        np.round(stats.laplace.ppf(np.linspace(0.02, 0.98, 25), scale=float(scale))).astype(int)
    )
    reach = int(40 * float(scale)) + 1000
    support = np.arange(-reach, reach + 1)
    expected = np.bincount(
        np.searchsorted(edges, support, side="right"),
        weights=laplace_pmf(support, scale),
        minlength=edges.size + 1,
    )
    observed = np.bincount(np.searchsorted(edges, samples, side="right"), minlength=edges.size + 1)
    kept = expected * samples.size > 5
    missing = 1 - expected[kept].sum()
    if missing > 1e-9:
        expected = np.append(expected[kept], missing)
        observed = np.append(observed[kept], samples.size - observed[kept].sum())
    statistic = float(np.sum((observed - samples.size * expected) ** 2 / (samples.size * expected)))
    return bool(stats.chi2.sf(statistic, expected.size - 1) > significance)


def fits_variance(samples, variance, kurtosis: float = 6.0, deviations: float = 5.0) -> bool:
    """Whether the mean square of centred samples is `variance` (kurtosis 6 is Laplace's)."""
    samples = np.asarray(samples, dtype=np.float64)
    standard_error = variance * math.sqrt((kurtosis - 1) / samples.size)
    return bool(abs(np.mean(np.square(samples)) - variance) < deviations * standard_error)


# -- audits -------------------------------------------------------------------------------------


def lower_bound_of_epsilon(first, second, confidence: float = 0.999) -> float:
    """Clopper–Pearson lower bound on ε from test statistics of two neighbours' runs.

    The event {statistic ≥ cut} and the direction are chosen on the even runs and counted on the odd
    ones, so that looking for the best event does not spoil the confidence.
    """

    def ratio(ones, zeros, alpha):
        low = stats.beta.ppf(alpha, ones.sum(), ones.size - ones.sum() + 1) if ones.any() else 0.0
        high = stats.beta.ppf(1 - alpha, zeros.sum() + 1, zeros.size - zeros.sum())
        high = 1.0 if math.isnan(high) else high
        return math.log(low / high) if low > 0 else -math.inf

    first, second = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    alpha = (1 - confidence) / 2
    best, choice = -math.inf, None
    cuts = np.unique(np.quantile(np.concatenate((first, second)), np.linspace(0, 1, 200)))
    for cut in cuts:
        for ones, zeros, above in ((first, second, True), (second, first, False)):
            a, b = ones[::2], zeros[::2]
            found = ratio(a >= cut, b >= cut, alpha) if above else ratio(a <= cut, b <= cut, alpha)
            if found > best:
                best, choice = found, (cut, ones, zeros, above)
    assert choice is not None
    cut, ones, zeros, above = choice
    a, b = ones[1::2], zeros[1::2]
    return ratio(a >= cut, b >= cut, alpha) if above else ratio(a <= cut, b <= cut, alpha)


def lower_bound_by_event(first, second, confidence: float = 0.999) -> float:
    """The same for an event that was named in advance: no run is needed to choose it."""
    alpha = (1 - confidence) / 2
    first, second = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    low = stats.beta.ppf(alpha, first.sum(), first.size - first.sum() + 1)
    high = stats.beta.ppf(1 - alpha, second.sum() + 1, second.size - second.sum())
    return math.log(low / high)


# -- pipelines and spies ------------------------------------------------------------------------


def pipeline(**changes) -> tg.Pipeline:
    """A small pipeline; `perturber` and `threshold` may be dictionaries of changes."""
    tree = {"epsilon": 1, "horizon": 64, "fanout": 2, "skipped": 1, "levels": 3}
    tree.update(changes.pop("perturber", {}))
    settings = {
        "threshold": tg.threshold.Fixed(20),
        "perturber": tg.perturb.Hierarchy(**tree),
        "estimator": tg.estimate.Unsmoothed(),
    }
    return tg.Pipeline(**{**settings, **changes})


@dataclass
class Spy:
    """The keys and keystreams that epochs gave out, by purpose."""

    keystreams: dict[str, list[Keystream]]
    keys: list[bytes]

    def last(self, purpose: str) -> Keystream:
        return self.keystreams[purpose][-1]


@pytest.fixture
def spy(monkeypatch) -> Spy:
    """Watches every keystream that is made."""
    seen = Spy({}, [])
    keystream, init = Epoch.keystream, Keystream.__init__

    def watched(self, purpose, *args, **kwargs):
        made = keystream(self, purpose, *args, **kwargs)
        seen.keystreams.setdefault(purpose, []).append(made)
        return made

    def keyed(self, key):
        seen.keys.append(bytes(key))
        init(self, key)

    monkeypatch.setattr(Epoch, "keystream", watched)
    monkeypatch.setattr(Keystream, "__init__", keyed)
    return seen


@pytest.fixture
def plant_scales(monkeypatch) -> Callable[[Callable[..., Sequence[Fraction]]], None]:
    """Plants a fault: noise scales other than the accounted ones, in every perturber."""

    def plant(faulty):
        right = hierarchy_and_flat.level_scales
        monkeypatch.setattr(
            hierarchy_and_flat,
            "level_scales",
            lambda threshold, epsilon, shares: faulty(right, threshold, epsilon, shares),
        )

    return plant


@pytest.fixture
def small_groves(monkeypatch) -> Callable[[int], None]:
    """Makes forests produce their noise in many small groves, to see them follow each other."""

    def shrink(leaves):
        for stage in (tg.perturb.Hierarchy, tg.perturb.Flat):
            law = stage.noise_law
            monkeypatch.setattr(
                stage,
                "noise_law",
                lambda self, threshold, law=law: replace(law(self, threshold), grove=leaves),
            )

    return shrink


@pytest.fixture(scope="session")
def tools() -> SimpleNamespace:
    """The functions above."""
    return SimpleNamespace(
        laplace_pmf=laplace_pmf,
        laplace_variance=laplace_variance,
        incidence=incidence,
        node_sums=node_sums,
        fits_laplace=fits_laplace,
        fits_variance=fits_variance,
        lower_bound_of_epsilon=lower_bound_of_epsilon,
        lower_bound_by_event=lower_bound_by_event,
        pipeline=pipeline,
    )
