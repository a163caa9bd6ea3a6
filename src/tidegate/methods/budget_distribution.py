"""Budget Distribution: publish a value when it has changed enough, within a budget per window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Unpack

from tidegate.estimate.last_published import LastPublished
from tidegate.exact_numbers import Number
from tidegate.methods._budget import per_window
from tidegate.methods._preset import SHORT_HORIZON, PerWindow, preset_with
from tidegate.methods._registration import Method
from tidegate.methods._window_stages import WINDOW_EXAMPLE, WindowStage
from tidegate.perturb.irregular_spans import check_scale
from tidegate.perturb.position_noise import BEYOND, EDGE, USUAL_SCALES, PositionNoise
from tidegate.perturb.sampled_values import Measurement, Stretch
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Epsilon, Spec, Whole

_SHARES = 1 << 32  # parts of ε/2: what is spent is counted in these
_LEAST = 1 << 12  # parts below which nothing is published: its noise would be of no use
_NEVER = 1 << 64  # no noisy dissimilarity is larger
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
        """Scale of the noise of a dissimilarity."""
        return -(-2 * self.window * threshold * self.epsilon.denominator // self.epsilon.numerator)

    def publication_scale(self, threshold: int, parts: int) -> int:
        """The scale of the noise of a number that costs `parts` of ε/2."""
        above, below = self.scale_ratio(threshold)
        return -(-above // (below * parts))

    def scale_ratio(self, threshold: int) -> tuple[int, int]:
        """The scale of a number that costs one part, as a fraction."""
        return threshold * 2 * _SHARES * self.epsilon.denominator, self.epsilon.numerator

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

    STATE: ClassVar[tuple[str, ...]] = ("published", "places", "parts")

    def __init__(self, stage: DistributedBudget, threshold: int, keystream: Keystream) -> None:
        self._stage, self._window = stage, stage.window
        self._threshold = threshold
        self._noise = PositionNoise(keystream, {_DISSIMILARITY: stage.scale(threshold)})
        self._scale_above, self._scale_below = stage.scale_ratio(threshold)
        # Floats propose a scale: below 2^33 they are off by less than 2^-18.
        self._ratio = self._scale_above / self._scale_below
        self._edge = 1e-5 if stage.publication_scale(threshold, _LEAST) < USUAL_SCALES else 1.0
        self.published = threshold // 2  # the last published number; at first a public guess
        self.places: list[int] = []  # where something was spent, within the last window
        self.parts: list[int] = []  # how much
        self._next = 0  # the present position
        self._offer = 0  # what it may spend

    def push(self, value: int, position: int) -> int:
        """The scale of a publication that is worth its noise, or 0."""
        self._next = position
        while self.places and self.places[0] <= position - self._stage.window:
            del self.places[0], self.parts[0]
        self._offer = (_SHARES - sum(self.parts)) // 2
        noisy = self._dissimilarity(value)
        if self._offer < _LEAST:
            return 0
        scale = self._stage.publication_scale(self._threshold, self._offer)
        return scale if noisy > scale else 0

    def sweep(self, stretch: Stretch) -> list[Measurement]:
        """`push` and `measured` for many values: the offer changes when a share goes or returns."""
        values, start, stop, position, _, noise = stretch
        found: list[Measurement] = []
        window, shift, published = self._window, position - start, self.published
        ratio, scale_of, edge = self._ratio, self._scale_of, self._edge
        beyond, huge = 1 - edge, edge == 1
        # The index at which each spent part returns, and the part; those before `head` did.
        spent = [place + window - shift for place in self.places]
        parts, head, left = self.parts.copy(), 0, _SHARES - sum(self.parts)
        while head < len(spent) and spent[head] < start:
            left += parts[head]
            head += 1
        returns = spent[head] if head < len(spent) else stop
        offer = left >> 1
        scale = scale_of(offer)
        at = start
        while at < stop:
            tests, index = self._noise.ahead(at + shift)
            logarithms, _ = noise.ahead(at + shift)
            until = min(stop, at + len(tests) - index)
            rows = zip(
                range(at, until), values[at:until], tests[index:], logarithms[index:], strict=False
            )
            for place, value, test, logarithm in rows:
                if place == returns:
                    left += parts[head]
                    head += 1
                    returns = spent[head] if head < len(spent) else stop
                    offer = left >> 1
                    rough = ratio / offer
                    scale = int(rough) + 1
                    if not edge < scale - rough < beyond or offer < _LEAST:
                        scale = scale_of(offer)
                if value - published + test > scale or published - value + test > scale:
                    product = scale * logarithm
                    draw = int(product)
                    rest = product - draw
                    if not (EDGE < rest < BEYOND or (draw and -BEYOND < rest < -EDGE)) or huge:
                        draw = noise.scaled(logarithm, scale, place + shift)
                    published = value + draw
                    found.append((place, published, scale))
                    back = place + window
                    if head == len(spent):
                        returns = back
                    spent.append(back)
                    parts.append(offer)
                    left -= offer
                    if returns != place + 1:  # else the offer changes again
                        offer = left >> 1
                        if offer < _LEAST:
                            scale = _NEVER
                            continue
                        rough = ratio / offer
                        scale = int(rough) + 1
                        if not edge < scale - rough < beyond:
                            scale = scale_of(offer)
            at = until
        self.published = published
        self.places = [place - window + shift for place in spent[head:]]
        self.parts = parts[head:]
        return found

    def _scale_of(self, offer: int) -> int:
        """The scale of a publication that costs `offer`."""
        if offer < _LEAST:
            return _NEVER
        return -(-self._scale_above // (self._scale_below * offer))

    def measured(self, number: int, span: int, scale: int) -> None:
        """Remember what is published, and what it cost."""
        if scale:
            self.published = number
            self.places.append(self._next)
            self.parts.append(self._offer)

    def _dissimilarity(self, value: int) -> int:
        """Noisy, of the present position."""
        (noise,), index = self._noise.at(self._next)
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
