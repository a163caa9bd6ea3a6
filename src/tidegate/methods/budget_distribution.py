"""Budget Distribution: publish a value when it has changed enough, within a budget per window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Unpack

import numpy as np

from tidegate.estimate.sample_and_hold import LastPublished
from tidegate.exact_numbers import Number
from tidegate.methods._budget import per_window
from tidegate.methods._preset import SHORT_HORIZON, PerWindow, preset_with
from tidegate.methods._registration import Method
from tidegate.methods._window_stages import WINDOW_EXAMPLE, WindowStage
from tidegate.perturb.irregular_spans import check_scale_of_spans
from tidegate.perturb.position_noise import USUAL_SCALES, PositionNoise
from tidegate.perturb.rounding_by_addition import CENTRE, WHOLE, near_integers
from tidegate.perturb.sampled_values import Measurements, Stretch, one_by_one
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Epsilon, Spec, Whole

_SHARES = 1 << 32  # parts of ε/2 in which spending is counted
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
        """The noise scale of a dissimilarity."""
        return -(-2 * self.window * threshold * self.epsilon.denominator // self.epsilon.numerator)

    def publication_scale(self, threshold: int, parts: int) -> int:
        """The noise scale of a number that costs `parts` of ε/2."""
        above, below = self.scale_ratio(threshold)
        return -(-above // (below * parts))

    def scale_ratio(self, threshold: int) -> tuple[int, int]:
        """The noise scale of a number that costs one part, as a fraction."""
        return threshold * 2 * _SHARES * self.epsilon.denominator, self.epsilon.numerator

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """The facts that determine the noise."""
        scale = self.scale(threshold)
        return (
            f"DistributedBudget(epsilon={self.epsilon}, window={self.window}, "
            f"threshold={threshold}, scale={scale}, shares={_SHARES}, least={_LEAST})"
        )

    def check(self, ceiling: int) -> int:
        """Refuse settings that could overflow 64-bit integers."""
        return max(
            super().check(ceiling), check_scale_of_spans(self.publication_scale(ceiling, _LEAST))
        )

    def sampler(self, threshold: int, keystream: Keystream) -> BudgetDistributionSampler:
        """A sampler that decides by noisy dissimilarity."""
        return BudgetDistributionSampler(self, threshold, keystream)


class BudgetDistributionSampler:
    """Budget Distribution, one position after another. Its state holds no raw value."""

    STATE: ClassVar[tuple[str, ...]] = ("published", "places", "parts")

    def __init__(self, stage: DistributedBudget, threshold: int, keystream: Keystream) -> None:
        self._stage, self._window = stage, stage.window
        self._threshold = threshold
        self._noise = PositionNoise(keystream, {_DISSIMILARITY: stage.scale(threshold)})
        self._scale_above, self._scale_below = stage.scale_ratio(threshold)
        # Floats propose a scale: below 2^33 they are off by less than 2^-18.
        self._ratio = self._scale_above / self._scale_below
        self._edge = 1e-5
        self._huge = stage.publication_scale(threshold, _LEAST) >= USUAL_SCALES
        self.published = threshold // 2  # the last published number; at first a public guess
        self.places: list[int] = []  # positions within the last window where budget was spent
        self.parts: list[int] = []  # how much was spent there
        self._next = 0  # the present position
        self._offer = 0  # the budget that it may spend

    def push(self, value: int, position: int) -> int:
        """The noise scale of the number if it is worth publishing, else 0."""
        self._next = position
        while self.places and self.places[0] <= position - self._stage.window:
            del self.places[0], self.parts[0]
        self._offer = (_SHARES - sum(self.parts)) // 2
        noisy = self._dissimilarity(value)
        if self._offer < _LEAST:
            return 0
        scale = self._stage.publication_scale(self._threshold, self._offer)
        return scale if noisy > scale else 0

    def sweep(self, stretch: Stretch) -> Measurements:
        """`push` and `measured` for many values.

        x + test > r + scale or x − test < r − scale is what `push` asks. Here a float that is at
        most the scale proposes, and the scale decides: with scales below 2^33, all numbers are
        below 2^46, where floats are off by far less than the 1 that two integers differ by. Scales
        and noise of what is published are rounded floats; afterwards it is seen, for all of them at
        once, whether one was so near to an integer that this was wrong. Then `push` decides.
        """
        if self._huge:
            return one_by_one(self, stretch)
        units, start, stop, position, _, _, noise = stretch
        numbers: list[float] = []
        by_integers: set[int] = set()  # which numbers have noise that was found so
        window, ratio, published, count = (
            self._window,
            self._ratio,
            self.published * 1.0,
            stop - start,
        )
        double, whole, centre = 2 * ratio, WHOLE, CENTRE
        # What comes back at each value: written a window ahead of where it is read.
        ahead = min(window, count)
        returns = [0.0] * (count + ahead)
        left, later = float(_SHARES), []
        for place, part in zip(self.places, self.parts, strict=True):
            back = place + window - position
            if back >= count:
                later.append((place, part))
            elif back >= 0:
                returns[back] = float(part)
            left -= part if back >= 0 else 0
        reading = iter(returns)
        # An offer is at most left/2, so a scale is at least this over what is left.
        high, low = published + double / left, published - double / left
        values, logs = units[start:stop].astype(np.float64), noise.between(position, count)
        at = 0
        while at < count:
            (tests, *_), index = self._noise.at(at + position)
            test = tests[index : index + count - at]
            until = at + test.size
            here = values[at:until]
            rows = zip(
                *(range(at, until), (here + test).tolist(), (here - test).tolist()),
                *(logs[at:until].tolist(), reading),
                strict=False,  # the first is the shortest
            )
            for place, above, below, logarithm, returned in rows:
                if returned:
                    left += returned
                    rough = double / left
                    high = published + rough
                    low = published - rough
                if above > high or below < low:
                    offer = left * 0.5 - 0.25 + whole - whole
                    if offer < _LEAST:
                        continue
                    scale = ratio / offer + 0.5 + whole - whole
                    if above - published <= scale and published - below <= scale:
                        scale = float(self._scale_of(int(offer)))
                        if above - published <= scale and published - below <= scale:
                            continue
                    if logarithm > 0.0:
                        drawn = scale * logarithm - 0.5 + centre
                    else:
                        drawn = scale * logarithm + 0.5 + centre
                    if drawn == centre:  # 0, or −0, which is thrown away
                        drawn += noise.scaled(logarithm, int(scale), place + position)
                        by_integers.add(len(numbers))
                    published = (above + below) * 0.5 + (drawn - centre)
                    numbers.append(published)
                    returns[place + ahead] = offer
                    left -= offer
                    rough = double / left
                    high = published + rough
                    low = published - rough
            at = until
        paid = np.array(returns[ahead:])
        places = paid.nonzero()[0]
        parts, released = paid[places], np.array(numbers)
        scales = ratio / parts + 0.5 + WHOLE - WHOLE
        near = near_integers(scales - ratio / parts, self._edge)
        draws = released - values[places]
        if any(self._scale_of(int(parts[at])) != scales[at] for at in near) or not noise.right(
            draws, scales, logs[places], places + position, by_integers
        ):
            return one_by_one(self, stretch)
        self.published = int(published)
        unread = enumerate(reading, position + count - ahead)
        later += [(place, int(part)) for place, part in unread if part]
        self.places = [place for place, _ in later]
        self.parts = [part for _, part in later]
        return places + start, released, scales

    def _scale_of(self, offer: int) -> int:
        """The noise scale of a number that costs `offer`."""
        if offer < _LEAST:
            return _NEVER
        return -(-self._scale_above // (self._scale_below * offer))

    def measured(self, number: int, span: int, scale: int) -> None:
        """Note the published number and its cost."""
        if scale:
            self.published = number
            self.places.append(self._next)
            self.parts.append(self._offer)

    def _dissimilarity(self, value: int) -> int:
        """The noisy dissimilarity at the present position."""
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
