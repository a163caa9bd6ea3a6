"""Exact samplers: integers in, integers out, and probabilities that are right to the last bit.

| sampler | what it draws |
|---|---|
| `discrete_laplace` | P(k) ∝ exp(−abs(k)/scale): the noise of every perturber |
| `one_discrete_laplace` | a single one, the same number, without arrays |
| `signed_logarithms`, `edge` | the same from words that are known before the scale is |
| `one_signed_logarithm` | that of one word, without arrays |
| `discrete_laplace_variance` | its variance, for error bars and plans |
| `discrete_gaussian` | P(k) ∝ exp(−k²/(2·variance)): noise for concentrated differential privacy |
| `discrete_gaussian_variance` | its variance |
| `bernoulli_exp` | coins that succeed with probability exp(−n·unit) |
| `permute_and_flip` | ε-private choice of the candidate with (nearly) the highest score |
| `exponential_mechanism` | the same by the exponential mechanism, for comparison |
| `uniform_below` | a uniform integer below n |
| `exponential_bounds` | the integers around 2**bits·exp(−n/d): what decides all of the above |
| `float_laplace` | Laplace noise in floats, for the paper's comparison methods only |

All of them read a `WordSource` and nothing else. A float only ever *proposes* an outcome; where its
error could matter, integers decide, with as many more random bits as that takes. So the outcome is
a function of the words alone, the same on every machine.
"""

from __future__ import annotations

from tidegate.noise.bernoulli import bernoulli_exp
from tidegate.noise.discrete_gaussian import discrete_gaussian, discrete_gaussian_variance
from tidegate.noise.discrete_laplace import (
    discrete_laplace,
    discrete_laplace_variance,
    one_discrete_laplace,
)
from tidegate.noise.exponential_enclosure import exponential_bounds
from tidegate.noise.float_laplace import float_laplace
from tidegate.noise.laplace_from_words import (
    USUAL_EDGE,
    USUAL_SCALES,
    edge,
    one_signed_logarithm,
    signed_logarithms,
)
from tidegate.noise.selection_mechanisms import exponential_mechanism, permute_and_flip
from tidegate.noise.uniform import uniform_below

__all__ = [
    "USUAL_EDGE",
    "USUAL_SCALES",
    "bernoulli_exp",
    "discrete_gaussian",
    "discrete_gaussian_variance",
    "discrete_laplace",
    "discrete_laplace_variance",
    "edge",
    "exponential_bounds",
    "exponential_mechanism",
    "float_laplace",
    "one_discrete_laplace",
    "one_signed_logarithm",
    "permute_and_flip",
    "signed_logarithms",
    "uniform_below",
]
