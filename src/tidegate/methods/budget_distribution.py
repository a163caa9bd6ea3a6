"""Budget Distribution: publish a value when it has changed enough, within a budget per window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Unpack

from tidegate.estimate.last_published import LastPublished
from tidegate.exact_numbers import Number
from tidegate.methods._budget import per_window
from tidegate.methods._preset import SHORT_HORIZON, PerWindow, preset_with
from tidegate.methods._registration import Method
from tidegate.methods._stage_bases import WINDOW_EXAMPLE, WindowStage
from tidegate.perturb.irregular_spans import PositionNoise, check_scale
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Epsilon, Spec, Whole

_SHARES = 1 << 32  # parts of ε/2: what is spent is counted in these
_LEAST = 1 << 12  # parts below which nothing is published: its noise would be of no use
_DISSIMILARITY = 1  # the level of their noise, in addresses


@dataclass(frozen=True, kw_only=True, repr=False)
class DistributedBudget(WindowStage, Spec):
    """Measures a value if it differs from the last published one by more than the noise it costs.

    **Privacy**: ε for any `window` consecutive values, all replaced at once (w-event privacy; not
    by group privacy). Let w be the window and r the last published number. At each position

    1. the dissimilarity |x − r| gets discrete Laplace noise of scale ⌈2wθ/ε⌉. Replacing x moves it
       by at most θ, so it costs at most ε/(2w);
    2. the budget of a publication is half of what the last w − 1 positions have left of ε/2,
       counted in whole parts of ε/2·2^-32. With b parts its noise has scale s = ⌈θ·2^33/(εb)⌉: it
       costs θ/s ≤ b parts;
    3. if the noisy dissimilarity exceeds s, x plus noise of scale s is published, and b parts are
       spent; else nothing is.

    Released are the decision and the number. Given what was released before, r and b are the same
    for two neighbouring streams, so each position costs at most ε/(2w) plus what it spends. Over
    any w consecutive positions the first add up to at most ε/2, and so do the second: each spends
    no more than half of what the w − 1 before it left. Positions outside the window have the same
    values in both streams and cost nothing. All of it is integer arithmetic.

    Args:
        epsilon: the budget of every window.
        window: w, how many consecutive values are protected together.
        horizon: queries look back on 16 of these (see `Pipeline.history`).
    """

    KIND: ClassVar[str] = "methods.DistributedBudget"

    epsilon: Epsilon = Epsilon()
    window: Whole = Whole(minimum=1)
    horizon: Whole = Whole(minimum=1, default=SHORT_HORIZON)

    def scale(self, threshold: int) -> int:
        """Of the noise that every dissimilarity gets."""
        return -(-2 * self.window * threshold * self.epsilon.denominator // self.epsilon.numerator)

    def publication_scale(self, threshold: int, parts: int) -> int:
        """The scale of the noise of a number that costs `parts` of ε/2."""
        above = threshold * 2 * _SHARES * self.epsilon.denominator
        return -(-above // (self.epsilon.numerator * parts))

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """All that decides about noise."""
        scale = self.scale(threshold)
        return (
            f"DistributedBudget(epsilon={self.epsilon}, window={self.window}, "
            f"threshold={threshold}, scale={scale}, shares={_SHARES}, least={_LEAST})"
        )

    def check(self, ceiling: int) -> None:
        """Refuse settings that could overflow 64-bit integers."""
        super().check(ceiling)
        check_scale(self.publication_scale(ceiling, _LEAST))

    def sampler(self, threshold: int, keystream: Keystream) -> DissimilaritySampler:
        """Decides by noisy dissimilarity."""
        return DissimilaritySampler(self, threshold, keystream)


class DissimilaritySampler:
    """Budget Distribution, one position after the other. Its state holds no raw value."""

    STATE: ClassVar[tuple[str, ...]] = ("published", "places", "parts", "next")

    def __init__(self, stage: DistributedBudget, threshold: int, keystream: Keystream) -> None:
        self._stage, self._window = stage, stage.window
        self._threshold = threshold
        self._noise = PositionNoise(keystream, {_DISSIMILARITY: stage.scale(threshold)})
        self.published = threshold // 2  # the last published number; at first a public guess
        self.places: list[int] = []  # where something was spent, within the last window
        self.parts: list[int] = []  # how much
        self.next = 0  # position
        self._offer = 0  # what the present position may spend

    def push(self, value: int, position: int) -> int:
        """The scale of a publication that is worth its noise, or 0."""
        self.next = position
        while self.places and self.places[0] <= position - self._stage.window:
            del self.places[0], self.parts[0]
        self._offer = (_SHARES - sum(self.parts)) // 2
        noisy = self._dissimilarity(value)
        if self._offer < _LEAST:
            return 0
        scale = self._stage.publication_scale(self._threshold, self._offer)
        return scale if noisy > scale else 0

    def find(self, values: list[int], start: int, stop: int, position: int) -> tuple[int, int]:
        """`push` for one value after the other: the offer changes only when a share comes back."""
        at, shift, places, published = start, position - start, self.places, self.published
        while at < stop:
            here = at + shift
            while places and places[0] <= here - self._window:
                del places[0], self.parts[0]
            self._offer = (_SHARES - sum(self.parts)) // 2
            until = min(stop, places[0] + self._window - shift) if places else stop
            noise, index = self._noise.ahead(here)
            until = min(until, at + len(noise) - index)
            if self._offer >= _LEAST:
                scale = self._stage.publication_scale(self._threshold, self._offer)
                behind = index - at
                for place in range(at, until):
                    off = values[place] - published
                    if (off if off > 0 else -off) + noise[place + behind] > scale:
                        self.next = place + shift
                        return place, scale
            at = until
        self.next = stop - 1 + shift
        return stop, 0

    def measured(self, number: int, span: int, scale: int) -> None:
        """Remember what is published, and what it cost."""
        if scale:
            self.published = number
            self.places.append(self.next)
            self.parts.append(self._offer)

    def _dissimilarity(self, value: int) -> int:
        """Noisy, of the present position."""
        (noise,), index = self._noise.at(self.next)
        return abs(value - self.published) + int(noise[index])


@preset_with(horizon=SHORT_HORIZON, holdout=0)
def budget_distribution(epsilon: Number, bound: Number, **shared: Unpack[PerWindow]) -> Pipeline:
    """Publishes a new number when the stream has left the last one; w-event privacy.

    Budget Distribution (BD); exact arithmetic. Every value is published as the last number that was
    released, until the stream has moved away from it by more than the noise of a new one. ε is for
    the whole window, natively: it is not divided by its length. The noise of a dissimilarity has
    scale 2wθ/ε, and here there is one stream to compare (the paper averages over many): decisions
    mean something only where ε/w is large.

    When: every window is protected natively; assumes that ε/w is large and that changes come in
        bursts.
    Reference: Kellaris, Papadopoulos, Xiao, Papadias, Differentially Private Event Sequences over
        Infinite Streams, VLDB 2014.

    >>> from tidegate.units import Window
    >>> print(budget_distribution(epsilon=1, bound=50, unit=Window(length=24)).guarantee)
    ε = 1 per window of 24 consecutive values (exact arithmetic, central model)
    """
    given = per_window(epsilon, bound, shared)
    return given.pipeline(
        DistributedBudget(epsilon=given.epsilon, window=given.window, horizon=given.horizon),
        LastPublished(),
    )


METHOD = Method(
    budget_distribution, stages=(DistributedBudget, LastPublished), example=WINDOW_EXAMPLE
)
