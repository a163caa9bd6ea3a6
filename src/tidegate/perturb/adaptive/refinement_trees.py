"""Trees for a release that refines its threshold: a budget for each block, lengths by age.

While a later choice of θ is paid for, the trees get what is left of ε; a warm-up is measured by one
node. The budget of a block is fixed before its first value.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tidegate.lattice import IntArray
from tidegate.noise import discrete_laplace
from tidegate.perturb.adaptive.adaptive_run import AdaptiveRun
from tidegate.perturb.adaptive.adaptive_trees import AdaptiveTrees
from tidegate.perturb.adaptive.tree_shapes import BLIND, all_trees, laws_of_all_shapes
from tidegate.randomness import Keystream
from tidegate.settings import Epsilon
from tidegate.stages import NO_SUMS, Layout
from tidegate.state_as_bytes import State

if TYPE_CHECKING:
    from tidegate.perturb.adaptive.event_trees import EventTrees

# Blocks last at least this many values, where a horizon has as many, and at most this part of it.
_SHORTEST, _LONGEST = 16, 16
# Doublings from the shortest length for which the costs of trees are computed.
_DOUBLINGS = 6


def refinement_block_length(horizon: int, age: int, position: int) -> int:
    """The length of a block that begins `age` values after the warm-up began; public.

    Blocks grow with the age of θ, so that no length of a stream is special, and end where the
    horizon ends (`position` counts from the beginning of the release).

    >>> [refinement_block_length(1024, age, age) for age in (8, 40, 500, 1000)]
    [16, 40, 64, 24]
    """
    length = max(_SHORTEST, min(horizon // _LONGEST, age))
    room = horizon - position % horizon
    return room if room - length < _SHORTEST else length


def refinement_block_lengths(horizon: int, ages: IntArray, positions: IntArray) -> IntArray:
    """`refinement_block_length` for many streams.

    >>> ages = np.array([8, 40, 500, 1000])
    >>> refinement_block_lengths(1024, ages, ages)
    array([16, 40, 64, 24])
    """
    lengths = np.maximum(_SHORTEST, np.minimum(horizon // _LONGEST, ages))
    room = horizon - positions % horizon
    return np.where(room - lengths < _SHORTEST, room, lengths)


@dataclass(frozen=True, kw_only=True, repr=False)
class RefinementTrees(AdaptiveTrees):
    """The trees of `AdaptiveTrees`, for every budget that a block of a refined release can have.

    Made from the pipeline's perturber, never stored: records name an option by its number in
    `every_layout`.

    Attributes:
        blocks: the parts of ε that blocks can be measured with, the whole first.
        warm_ups: the parts of ε that the sum of a warm-up can be measured with.
    """

    KIND: ClassVar[str] = "perturb.RefinementTrees"

    epsilon: Epsilon = Epsilon()  # again: mypy does not see through inherited descriptors
    blocks: tuple[Fraction, ...]
    warm_ups: tuple[Fraction, ...]

    def __hash__(self) -> int:
        return self._hash  # kept: caches ask for it often, and that of a fraction takes long

    @cached_property
    def _hash(self) -> int:
        return hash((self.epsilon, self.horizon, self.nodes, self.blocks, self.warm_ups))

    def lengths(self, chunk: int) -> tuple[int, ...]:
        """The lengths in the table of costs: a block uses the nearest one."""
        longest = max(_SHORTEST, self.horizon // _LONGEST)
        found = {max(_SHORTEST, longest >> halvings) for halvings in range(_DOUBLINGS)}
        return tuple(sorted(found))

    def every_layout(self, length: int, threshold: int, ceiling: int) -> tuple[Layout, ...]:
        """All options for all budgets; a record identifies each by its index."""
        return _every_refinement_layout(self, length, threshold, ceiling)

    def group(
        self, part: Fraction, length: int, threshold: int, ceiling: int
    ) -> tuple[int, tuple[Layout, ...]]:
        """The options of a block with this share of ε, and the index of the first.

        For the part of a warm-up, given below 0: one node, whose cap is θ.
        """
        return _refinement_group(self, part, length, threshold, ceiling)

    @cached_property
    def parts(self) -> tuple[Fraction, ...]:
        """The shares of ε of blocks, then those of warm-ups as negative numbers."""
        return (*self.blocks, *(-part for part in self.warm_ups))

    def warm_up(
        self, part: Fraction, length: int, threshold: int, ceiling: int
    ) -> tuple[int, Layout]:
        """The layout that measures the sum of a warm-up with this share of ε, and its index."""
        first, (layout,) = self.group(-part, length, threshold, ceiling)
        return first, layout

    def part_of(self, choice: int, length: int, threshold: int, ceiling: int) -> Fraction:
        """The share of ε of an option of `every_layout`; below 0: that of a warm-up."""
        return _part_of_refinement(self, choice, length, threshold, ceiling)

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """The caps and scales of all possible choices; they are the same for every length."""
        trees = self.every_layout(self.horizon, threshold, ceiling)
        return f"[{', '.join(tree.identity for tree in trees)}]"

    def check(self, ceiling: int) -> Fraction | int:
        """Refuse settings that could overflow 64-bit integers with the least budget."""
        least = self.epsilon * min(*self.blocks, *self.warm_ups)
        return AdaptiveTrees(epsilon=least, horizon=self.horizon).check(ceiling)

    def start(
        self, threshold: int, ceiling: int, keystream: Keystream, state: State | None = None
    ) -> RefinementTreesRun:
        """Begin with all of ε for sums, or resume from `state`."""
        return RefinementTreesRun(
            self,
            threshold,
            ceiling,
            keystream,
            state,
            part=self.blocks[0],
            warm_up_start=0,
            position=0,
        )


@lru_cache(maxsize=64)  # a record asks for each of its blocks
def _every_refinement_layout(
    stage: RefinementTrees, length: int, threshold: int, ceiling: int
) -> tuple[Layout, ...]:
    groups = _groups(stage, length, threshold, ceiling)
    return tuple(layout for group in groups for layout in group)


@lru_cache(maxsize=64)
def _groups(
    stage: RefinementTrees, length: int, threshold: int, ceiling: int
) -> tuple[tuple[Layout, ...], ...]:
    return tuple(
        _refinement_group(stage, part, length, threshold, ceiling)[1] for part in stage.parts
    )


@lru_cache(maxsize=4096)  # every answer asks, about every threshold of every key
def _part_of_refinement(
    stage: RefinementTrees, choice: int, length: int, threshold: int, ceiling: int
) -> Fraction:
    ends = accumulate(map(len, _groups(stage, length, threshold, ceiling)))
    return next(part for part, end in zip(stage.parts, ends, strict=True) if choice < end)


@lru_cache(maxsize=1024)  # every block asks, and keys have thresholds of their own
def _refinement_group(
    stage: RefinementTrees, part: Fraction, length: int, threshold: int, ceiling: int
) -> tuple[int, tuple[Layout, ...]]:
    at, count, shapes = stage.parts.index(part), len(stage.blocks), stage.shapes(length)
    if at < count:  # caps do not depend on ε: every part has as many options
        options = all_trees(shapes, stage.epsilon * part, length, threshold, ceiling)
        return at * len(options), options
    before = len(laws_of_all_shapes(shapes, stage.epsilon, threshold, ceiling))
    # A ceiling of θ leaves one option, whose cap is θ.
    single = all_trees((BLIND,), stage.epsilon * -part, length, threshold, threshold)
    return count * before + (at - count) * len(single), single


def noisy_sum(values: IntArray, layout: Layout, keystream: Keystream) -> int:
    """The sum of a warm-up's values with the noise of one node.

    Privacy: values are capped here, next to the noise, so replacing one moves the sum by at most
    `cap`; exact discrete Laplace noise of the layout's scale costs cap/scale ≤ part·ε.
    """
    (scale,) = layout.scales
    noise: int = discrete_laplace(keystream.at(), 1, scale).item()
    return int(np.minimum(values, layout.cap).sum()) + noise


class RefinementTreesRun(AdaptiveRun):
    """The blocks between two choices of θ, each measured with the same share of ε.

    Privacy: as `AdaptiveRun`, with Σ cap/scale ≤ part·ε. What follows is a run with another epoch,
    also if the last block is given up at the end of one of its leaves: its tree is drawn whole, and
    publishing its leaves up to one that they decide themselves is post-processing. So is the `rest`
    then: for a block that is given up after leaf k, the leaves up to k and the rest are a function
    of the noisy tree of the same values up to there and zeros behind, which costs Σ cap/scale; and
    whether k is the last leaf is read off those leaves alone, so that what is released has, for
    each k, the probability that it has under that tree. Values behind k are in other pieces.
    """

    _COUNTS: ClassVar[tuple[str, ...]] = (*AdaptiveRun._COUNTS, "position")

    def __init__(
        self,
        stage: RefinementTrees | EventTrees,
        threshold: int,
        ceiling: int,
        keystream: Keystream,
        state: State | None = None,
        *,
        part: Fraction,
        warm_up_start: int,
        position: int,
    ) -> None:
        """Measure with `part` of ε from `position` on; `warm_up_start`: where θ's warm-up began."""
        self._trees = stage
        self.part, self._warm_up_start = part, warm_up_start
        # Block 0 begins a horizon; where none begins, blocks count from 1.
        known = state or {"position": position, "number": int(position % stage.horizon > 0)}
        counts = {**dict.fromkeys(self._COUNTS, 0), "choice": None, **known}
        self.position: int = counts["position"]  # where the open block begins
        self._known: tuple[int, tuple[int, tuple[Layout, ...]]] | None = None  # of a position
        self._drawn: IntArray = NO_SUMS  # the noise of the leaves of the block that came last
        super().__init__(stage, threshold, ceiling, keystream, counts)

    def state(self) -> dict[str, Any]:
        """The state to resume from."""
        return {**super().state(), "position": self.position}

    @property
    def _group(self) -> tuple[int, tuple[Layout, ...]]:
        horizon, position = self._trees.horizon, self.position
        if self._known is None or self._known[0] != position:
            length = refinement_block_length(horizon, position - self._warm_up_start, position)
            found = self._trees.group(self.part, length, self._threshold, self._ceiling)
            self._known = position, found
        return self._known[1]

    @property
    def options(self) -> tuple[Layout, ...]:
        """The trees to choose from for the present block."""
        return self._group[1]

    @property
    def first_number(self) -> int:
        """The index of the first option in `RefinementTrees.every_layout`."""
        return self._group[0]

    def take_noise(self, drawn: IntArray) -> None:
        """Use this noise for the open block's leaves; it was drawn from the same keystream."""
        self._noise = self._drawn = drawn

    def _leaf_noise(self, tree: Layout) -> IntArray:
        self._drawn = super()._leaf_noise(tree)
        return self._drawn

    def rest(self, tree: Layout, leaves: int) -> int | None:
        """The contribution of the last block's tree to its first leaves, if only zeros follow.

        It concerns the coarsest node that is open after `leaves` leaves; None: none is open. The
        leaves so far plus this equal what the coarsest node measured, which has far less noise
        than they have.
        """
        width = tree.leaves // tree.nodes[0]
        end = -(-leaves // width) * width
        return int(self._drawn[leaves:end].sum()) if end > leaves else None

    def _end_block(self, tree: Layout) -> None:
        self.position += tree.length
        self.number += 1
        if self.position % self._trees.horizon == 0:
            self.chunk += 1
            self.number = 0
