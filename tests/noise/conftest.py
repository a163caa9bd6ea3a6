"""Exact checks of a sampler: every sequence of words, with its exact probability."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from tidegate.randomness import seeded

TOLERANCE = Fraction(1, 10**40)  # of the Decimal truths, which carry 60 digits


class OutOfWordsError(Exception):
    """The scripted words are used up: the outcome depends on more of them."""


class ScriptedWords:
    """Words given in advance, optionally followed by those of another source."""

    def __init__(self, bits, script, then=None):
        self.bits = bits
        self.script = np.array(script, dtype=np.uint64)
        self.taken = 0
        self.then = then

    def take(self, count):
        chunk = self.script[self.taken : self.taken + count]
        self.taken += count
        if chunk.size == count:
            return chunk
        if self.then is None:
            raise OutOfWordsError
        return np.concatenate([chunk, self.then.take(count - chunk.size)])


@dataclass(frozen=True)
class Law:
    """What is known of a sampler's law after walking a part of the tree of words."""

    resolved: dict[Hashable, Fraction]
    unresolved: Fraction

    def violations(
        self, truth: Callable[[Hashable], Fraction], outcomes: Iterable[Hashable]
    ) -> list[Hashable]:
        """Outcomes whose probability cannot be the true one, however the rest resolves."""
        return [
            outcome
            for outcome in {*outcomes, *self.resolved}
            if not (
                self.resolved.get(outcome, 0) - TOLERANCE
                <= truth(outcome)
                <= self.resolved.get(outcome, 0) + self.unresolved + TOLERANCE
            )
        ]


def walk(
    draw: Callable[[ScriptedWords], Hashable],
    bits: int,
    *,
    budget: int,
    until: Fraction = Fraction(1, 10**6),
) -> Law:
    """Run `draw` on sequences of words, likeliest first, until little or the budget is left."""
    resolved: dict[Hashable, Fraction] = defaultdict(Fraction)
    unresolved = Fraction(1)
    waiting: deque[tuple[int, ...]] = deque([()])
    while waiting and budget and unresolved > until:
        script = waiting.popleft()
        budget -= 1
        words = ScriptedWords(bits, script)
        try:
            outcome = draw(words)
        except OutOfWordsError:
            waiting.extend((*script, word) for word in range(1 << bits))
        else:
            assert words.taken == len(script)
            mass = Fraction(1, 1 << bits * len(script))
            resolved[outcome] += mass
            unresolved -= mass
    return Law(dict(resolved), unresolved)


def exp_minus(exponent: Fraction) -> Fraction:
    """exp(−exponent) to 60 digits, by a route that shares nothing with the package."""
    with localcontext() as context:
        context.prec = 60
        value = (Decimal(-exponent.numerator) / Decimal(exponent.denominator)).exp()
    return Fraction(value)


@pytest.fixture(scope="session")
def exact() -> SimpleNamespace:
    """The tools above."""
    return SimpleNamespace(walk=walk, exp_minus=exp_minus, ScriptedWords=ScriptedWords)


@pytest.fixture
def keystream():
    """Fresh 64-bit words of a seeded keystream, by seed."""
    return lambda seed: seeded(seed).new_epoch().keystream("test", b"").at(chunk=0)
