"""Budget Absorption: a value that is published takes the budget of those that were not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Unpack

from tidegate.estimate.sample_and_hold import LastPublished
from tidegate.exact_numbers import Number
from tidegate.methods._budget import per_window
from tidegate.methods._preset import SHORT_HORIZON, PerWindow, preset_with
from tidegate.methods._registration import Method
from tidegate.methods._window_stages import WINDOW_EXAMPLE
from tidegate.methods.budget_distribution import BudgetDistributionSampler, DistributedBudget
from tidegate.perturb.irregular_spans import check_scale_of_spans
from tidegate.perturb.position_noise import BEYOND, EDGE, USUAL_SCALES
from tidegate.perturb.sampled_values import Measurements, Stretch
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Epsilon, Whole


@dataclass(frozen=True, kw_only=True, repr=False)
class AbsorbedBudget(DistributedBudget):
    """Measures a value if it differs from the last published one by more than the noise it costs.

    **Privacy**: ε for any w = `window` consecutive values, all replaced at once (w-event privacy).
    Every position has one share, ε/(2w), for publications.

    1. The dissimilarity |x − r| to the last published number r gets discrete Laplace noise of scale
       ⌈2wθ/ε⌉: ε/(2w) at every position, ε/2 over any w of them.
    2. A publication with t shares has noise of scale ⌈2wθ/(εt)⌉ and costs at most t shares. After
       it, t − 1 positions publish nothing: their shares are spent. The position after these may
       use its own share; one that publishes nothing leaves its share to those that follow, w at
       most.

    Given what was released, t is the same for two neighbouring streams. Let publications at i_1 <
    … < i_n lie within a window, with t_1, …, t_n shares. By 2, t_k ≤ i_k − i_{k−1} − (t_{k−1} − 1),
    so t_2 + … + t_n ≤ i_n − i_1 − (t_1 + … + t_{n−1}) + (n − 1), and

        t_1 + … + t_n ≤ i_n − i_1 + (n − 1) − (t_2 + … + t_{n−1}) ≤ i_n − i_1 + 1 ≤ w,

    since every t is at least 1; a single one has at most w. So publications cost at most ε/2 over
    any w positions. All of it is integer arithmetic.

    The arguments are those of `DistributedBudget`.
    """

    KIND: ClassVar[str] = "methods.AbsorbedBudget"

    epsilon: Epsilon = Epsilon()
    window: Whole = Whole(minimum=1)
    horizon: Whole = Whole(minimum=1, default=SHORT_HORIZON)

    def publication_scale(self, threshold: int, parts: int) -> int:
        """The noise scale of a number that costs `parts` shares."""
        above = 2 * self.window * threshold * self.epsilon.denominator
        return -(-above // (self.epsilon.numerator * parts))

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """The facts that determine the noise."""
        scale = self.scale(threshold)
        return (
            f"AbsorbedBudget(epsilon={self.epsilon}, window={self.window}, "
            f"threshold={threshold}, scale={scale})"
        )

    def check(self, ceiling: int) -> int:
        """Refuse settings that could overflow 64-bit integers."""
        return check_scale_of_spans(self.scale(ceiling))

    def sampler(self, threshold: int, keystream: Keystream) -> BudgetAbsorptionSampler:
        """A sampler that decides by noisy dissimilarity."""
        return BudgetAbsorptionSampler(self, threshold, keystream)


class BudgetAbsorptionSampler(BudgetDistributionSampler):
    """Budget Absorption, one position after another. Its state holds no raw value."""

    STATE: ClassVar[tuple[str, ...]] = ("published", "free")

    def __init__(self, stage: AbsorbedBudget, threshold: int, keystream: Keystream) -> None:
        super().__init__(stage, threshold, keystream)
        self._scales = [
            stage.publication_scale(threshold, parts) for parts in range(1, stage.window + 1)
        ]
        self.free = 0  # the first position whose share is free

    def push(self, value: int, position: int) -> int:
        """The noise scale of the number if it is worth publishing, else 0."""
        self._next = position
        self._offer = min(position + 1 - self.free, self._window)
        if self._offer < 1:
            return 0
        scale = self._scales[self._offer - 1]
        return scale if self._dissimilarity(value) > scale else 0

    def sweep(self, stretch: Stretch) -> Measurements:
        """`push` and `measured` for many values, skipping those whose shares are spent."""
        units, start, stop, position, _, _, noise = stretch
        places: list[int] = []
        numbers: list[float] = []
        marks: list[float] = []
        shift, most, published = position - start, self._window - 1, self.published
        # As indices; a share that is older than a window is lost, so `free` need not be older.
        free = max(self.free - shift, start - most)
        if len(self._scales) <= stop - free:
            self._scales += [self._scales[most]] * (stop - free - most)
        scales, lost = self._scales, most + 1
        at = start
        while at < stop:
            (tests, *_), index = self._noise.at(at + shift)
            logarithms, among = noise.ahead(at + shift)
            until = min(stop, at + tests.size - index, at + len(logarithms) - among)
            here, test = units[at:until], tests[index : index + until - at]
            rows = zip(
                *(range(at, until), (here + test).tolist(), (here - test).tolist()),
                logarithms[among:],
                strict=False,  # the first is the shortest
            )
            for place, above, below, logarithm in rows:
                if place < free:
                    continue
                unspent = place - free
                scale = scales[unspent]
                if above - published > scale or published - below > scale:
                    product = scale * logarithm
                    draw = int(product)
                    if not (draw and EDGE < abs(product - draw) < BEYOND and scale < USUAL_SCALES):
                        draw = noise.scaled(logarithm, scale, place + shift)
                    published = (above + below) // 2 + draw
                    places.append(place)
                    numbers.append(published)
                    marks.append(scale)
                    free = place + (unspent + 1 if unspent < lost else lost)
            at = until
        if places:
            self.published, self.free = published, free + shift
        return places, numbers, marks

    def measured(self, number: int, span: int, scale: int) -> None:
        """Note the published number and its cost."""
        if scale:
            self.published = number
            self.free = self._next + self._offer


@preset_with(horizon=SHORT_HORIZON, holdout=0)
def budget_absorption(epsilon: Number, bound: Number, **shared: Unpack[PerWindow]) -> Pipeline:
    """A new number takes the budget of the positions that published none; w-event privacy.

    Budget Absorption (BA); exact arithmetic. As `budget_distribution`, with another rule for the
    budget: after a quiet stretch a publication has up to half of the window's ε to itself, and then
    as many positions must wait. Better than BD where changes are rare and apart.

    When: the same as `budget_distribution`, where changes are rare and far apart.
    Reference: the same as `budget_distribution`: Kellaris et al., VLDB 2014.

    >>> print(budget_absorption(epsilon=1, bound=50).guarantee)
    ε = 1 per window of 60 consecutive values (exact arithmetic, central model)
    """
    given = per_window(epsilon, bound, shared)
    stage = AbsorbedBudget(epsilon=given.epsilon, window=given.window, horizon=given.horizon)
    return given.pipeline(stage, LastPublished())


METHOD = Method(budget_absorption, stages=(AbsorbedBudget, LastPublished), example=WINDOW_EXAMPLE)
