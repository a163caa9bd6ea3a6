"""The strategies that `benchmarks.short_streams` can compare: the prototype, whole and in parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from benchmarks.short_prototype import Staged
from benchmarks.short_rules import Floats, Rules, Values
from tidegate.lattice import Lattice
from tidegate.methods.adaptive import without_holdout
from tidegate.noise import discrete_laplace
from tidegate.randomness import KeystreamWords, seeded
from tidegate.threshold import TailQuantile


class Exact(Staged):
    """The same with the real mechanisms: `TailQuantile`, exact noise, exact scales."""

    def __init__(self, horizon: int, bound: int, epsilon: float, seed: int, rules: Rules) -> None:
        super().__init__(horizon, bound, epsilon, seed, rules)
        self.keystream = seeded(seed).new_epoch().keystream("prototype", b"")
        self.drawn = 0

    def _words(self) -> KeystreamWords:
        self.drawn += 1
        return self.keystream.at(chunk=self.drawn)

    def laplace(self, scale: float | Fraction, count: int = 1) -> Values:
        """Exact noise."""
        return discrete_laplace(self._words(), count, Fraction(scale))

    def choose(
        self, values: Values, share: Fraction, certain: float | None = None
    ) -> tuple[int, float]:
        """By the real stage."""
        stage = TailQuantile(
            epsilon=share * self.exact,
            bound=self.bound,
            holdout=values.size,
            horizon=self.horizon,
            stream_epsilon=self.exact,
            visible=round(self.rules.certain if certain is None else certain),
        )
        self.drawn += 1
        lattice = Lattice(Fraction(self.bound), Fraction(1))
        child = seeded(self.drawn * 1000 + self.seed).new_epoch().keystream("threshold", b"")
        theta = stage.choose(values, lattice, child, at_least=math.ceil(self.floor))
        return theta, theta / float(stage.extrapolation)


def strategy(
    rules: Rules, kind: type[Staged] = Staged
) -> Callable[[Values, int, float, int], Floats]:
    """A strategy for `benchmarks.short_streams`."""

    def release(values: Values, bound: int, epsilon: float, seed: int) -> Floats:
        return kind(values.size, bound, epsilon, seed, rules).run(values)

    return release


def product(
    *, windows: bool = True, restarts: bool = True
) -> Callable[[Values, int, float, int], Floats]:
    """The release itself, told ε, the bound and how many values come; whole or in parts."""

    def release(values: Values, bound: int, epsilon: float, seed: int) -> Floats:
        exact = Fraction(str(epsilon))
        pipeline = without_holdout(exact, bound, values.size, windows=windows, restarts=restarts)
        return pipeline.start(seeded(seed)).push(values)

    return release


BASE = Rules()
STRATEGIES = {
    "product": product(),
    "product, no windows": product(windows=False),
    "product, no restarts": product(restarts=False),
    "product, warm-up only": product(windows=False, restarts=False),
    "staged": strategy(BASE),
    "exact": strategy(BASE, Exact),
    "centred": strategy(replace(BASE, centred=True)),
    "no restart": strategy(replace(BASE, restart=False)),
    "no windows": strategy(replace(BASE, until=0.0)),
    "no windows, no restart": strategy(
        replace(BASE, until=0.0, lasting_share=Fraction(0), restart=False)
    ),
    "exact, no lasting windows": strategy(replace(BASE, lasting_share=Fraction(0)), Exact),
    "no lasting windows": strategy(replace(BASE, lasting_share=Fraction(0))),
    "rare lasting windows": strategy(replace(BASE, lasting=800.0, lasting_step=1.5)),
    "no watch": strategy(replace(BASE, watch=0.0)),
    "no backfill": strategy(replace(BASE, backfill=False)),
}
