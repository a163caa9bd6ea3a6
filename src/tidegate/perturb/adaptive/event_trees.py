"""Trees for sums of events per tick: one cap for all, and room for any number of events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from tidegate.errors import SettingError
from tidegate.lattice import IntArray
from tidegate.noise import discrete_laplace
from tidegate.perturb.adaptive.adaptive_trees import AdaptiveTrees
from tidegate.perturb.adaptive.refinement_trees import RefinementTreesRun
from tidegate.perturb.adaptive.tree_shapes import BLIND, RANGE_ERROR, all_trees
from tidegate.randomness import Keystream
from tidegate.settings import Epsilon, Exact, Flag, Whole
from tidegate.stages import Layout
from tidegate.state_as_bytes import State

# Models can count in θ, 2·θ, …, 2^31·θ: a tick may hold very many events. Noise does not change.
STEPS = 32
# The parts of ε that events of a window leave for another choice of θ: early, and later.
SHARES = Fraction(1, 2), Fraction(1, 4)
_EVENTS = 1 << 16  # events at the bound that a tick must have room for


@dataclass(frozen=True, kw_only=True, repr=False)
class EventTrees(AdaptiveTrees):
    """Noisy sums of blocks of ticks; each event is truncated by itself and added to its tick.

    Guarantee: pure ε-DP for one event that is added or removed (argument: `EventTreesRun`).

    Args:
        epsilon: the budget of every event.
        horizon: the longest range that should be answered well, in ticks.
        nodes: measure every block by this one tree; None: the forecaster chooses.
        warm_up: the part of ε that the sum of the warm-up is measured with.
        windows: whether some blocks leave a part of ε for another choice of θ.
        sizes: whether the numbers of events in bands of sizes are released too (`SizeBands`).
    """

    KIND: ClassVar[str] = "perturb.EventTrees"

    epsilon: Epsilon = Epsilon()  # again: mypy does not see through inherited descriptors
    horizon: Whole = Whole(minimum=1)
    warm_up: Exact = Exact(default=1)
    windows: Flag = Flag(default=False)
    sizes: Flag = Flag(default=False)  # as records of earlier versions are read

    def settings(self) -> dict[str, Any]:
        """The specification as plain data; `sizes` only where it is: noise keys stay."""
        found = super().settings()
        if not self.sizes:
            del found["sizes"]
        return found

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The shares of ε that a choice of θ can get from the events of a block."""
        return SHARES if self.windows else ()

    def layouts(self, length: int, threshold: int, ceiling: int) -> tuple[Layout, ...]:
        """The trees that fit into `length` ticks, for every unit of the models; all have cap θ."""
        return _event_tree_groups(self, length, threshold)[0]

    def every_layout(self, length: int, threshold: int, ceiling: int) -> tuple[Layout, ...]:
        """All layouts of blocks and of warm-ups; a record identifies each by its index."""
        return tuple(
            layout for group in _event_tree_groups(self, length, threshold) for layout in group
        )

    def group(
        self, part: Fraction, length: int, threshold: int, ceiling: int
    ) -> tuple[int, tuple[Layout, ...]]:
        """The options of a block with this share of ε, and the index of the first."""
        groups, at = (
            _event_tree_groups(self, length, threshold),
            (Fraction(1), *self._left).index(part),
        )
        return sum(map(len, groups[:at])), groups[at]

    @property
    def _left(self) -> tuple[Fraction, ...]:
        return tuple(1 - share for share in self.shares)

    def warm_up_layout(self, length: int, threshold: int, step: int) -> tuple[int, Layout]:
        """The layout that measures the sum of a warm-up of `length` ticks, and its index."""
        *blocks, warm_ups = _event_tree_groups(self, length, threshold)
        return sum(map(len, blocks)) + step, warm_ups[step]

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """The scales of all possible choices: the same for every length and every unit."""
        trees = self.every_layout(self.horizon, threshold, ceiling)
        found = f"[{', '.join(tree.identity for tree in trees if not tree.cap_step)}]"
        return f"{found}, sizes" if self.sizes else found

    @property
    def most(self) -> int:
        """The limit on sums of ticks, such that those of a horizon fit into 64 bits."""
        return (1 << 61) // self.horizon

    def check(self, ceiling: int) -> Fraction | int:
        """Refuse settings with which 65,536 events at the bound would not fit into a tick."""
        scale = super().check(ceiling)
        if _EVENTS * ceiling > self.most:
            raise SettingError(
                "resolution",
                f"too fine: with it a tick could not hold {_EVENTS} events at the bound. Choose a "
                "coarser one, or a shorter horizon",
            )
        return scale

    def start(
        self, threshold: int, ceiling: int, keystream: Keystream, state: State | None = None
    ) -> EventTreesRun:
        """Begin with the first tick, or resume from `state`."""
        return EventTreesRun(
            self,
            threshold,
            ceiling,
            keystream,
            state,
            part=Fraction(1),
            warm_up_start=0,
            position=0,
        )


@lru_cache(maxsize=64)
def _event_tree_groups(
    stage: EventTrees, length: int, threshold: int
) -> tuple[tuple[Layout, ...], ...]:
    """The options of blocks for each possible share of ε, and those of a warm-up."""
    shapes = tuple(shape for shape in RANGE_ERROR if shape != BLIND)
    wanted = shapes if stage.nodes is None else (tuple(stage.nodes),)
    fitting = tuple(shape for shape in wanted if shape[-1] <= length) or (BLIND,)
    blocks = [
        _every_event_step(fitting, stage.epsilon * part, length, threshold)
        for part in (Fraction(1), *stage._left)
    ]
    return *blocks, _every_event_step((BLIND,), stage.epsilon * stage.warm_up, length, threshold)


def _every_event_step(
    shapes: tuple[tuple[int, ...], ...], epsilon: Fraction, length: int, threshold: int
) -> tuple[Layout, ...]:
    # Twice θ with a ceiling of θ: every shape has the cap θ, and there is one step.
    trees = all_trees(shapes, epsilon, length, 2 * threshold, threshold)
    return tuple(replace(tree, cap_step=step) for step in range(STEPS) for tree in trees)


def noisy_event_total(total: int, scale: Fraction, keystream: Keystream, look: int = 0) -> int:
    """A sum of truncated events, or their count, with exact discrete Laplace noise."""
    noise: int = discrete_laplace(keystream.at(chunk=look), 1, scale).item()
    return total + noise


class EventTreesRun(RefinementTreesRun):
    """Releases the noisy leaf sums of one block of ticks after another.

    Privacy: ε for one event that is added or removed. Events are truncated one by one to [−θ, θ]
    before they are summed (`tidegate.run.event_log`), so an event more or less moves the sum of one
    tick by at most θ, however many events the tick has, and with it one node per level of one
    tree. (A replaced event would move it by up to 2·θ: it is removed, and another one is added.)
    The scales satisfy Σ θ/scale ≤ ε exactly. Ticks come from the clock: which leaf and which block
    an event belongs to is a function of its own time and of public settings (also in an hour that
    comes twice: `Clock.universal`). Trees and units of
    models are functions of earlier releases; so blocks compose in parallel, adaptively, as in
    `AdaptiveRun`. Nothing is truncated here.
    """

    def _capped(self, values: IntArray, tree: Layout) -> IntArray:
        return values

    def push_one(self, value: int) -> int | None:
        """Push one tick."""
        sums = self.push(np.array([value], dtype=np.int64)).sums
        return int(sums[0]) if sums.size else None
