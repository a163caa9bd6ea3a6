"""Stages 2 and 3 in another form: a forecaster says how each block should be measured.

    raw units → GuidedRun.push ── Noisy ║ ForecasterRun.push → output
                      ↑                 ║        │
                      └── which of the public options measures the next block

What goes back over the barrier is a function of released data and public settings, so the blocks
compose in parallel, adaptively; `tidegate.perturb.adaptive_run` has the argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from tidegate.guarantee import Guarantee
from tidegate.lattice import FloatArray
from tidegate.randomness import Keystream
from tidegate.stages import Noisy, PerturberRun, Run


@dataclass(frozen=True)
class Tree:
    """How one block of values is measured: public, and decided before its first value arrives.

    Attributes:
        length: values in the block.
        nodes: nodes per level, coarsest first; each number divides the next, the last are leaves.
        cap: values are truncated here, in lattice units.
        scales: discrete Laplace scale of a node per level, in units; Σ cap/scale ≤ ε.
        variances: the variances that follow from the scales, in units².
        used: leaves that the block has, the first ones; None: all. (A horizon may end before its
            last tree does.)
        rung: how high the cap is; options with the same rung differ in the tree only.
    """

    length: int
    nodes: tuple[int, ...]
    cap: int
    scales: tuple[Fraction, ...]
    variances: tuple[float, ...]
    used: int | None = None
    rung: int = 0

    @property
    def identity(self) -> str:
        """All that decides about the noise of the nodes. Part of its key: never change it.

        Names are written out, so that renaming a class or a field changes no noise. (`used` decides
        which nodes are needed, not which noise they get.)
        """
        return (
            f"Tree(length={self.length}, nodes={self.nodes}, cap={self.cap}, scales={self.scales}, "
            f"variances={self.variances}, rung={self.rung})"
        )

    @property
    def leaves(self) -> int:
        """How many sums are released."""
        return self.nodes[-1] if self.used is None else self.used

    def edge(self, leaf: int) -> int:
        """Where a leaf begins, counted from the beginning of the block."""
        return leaf * self.length // self.leaves

    def leaves_by(self, values: int) -> int:
        """How many leaves are complete after so many values of the block: all with edge ≤ values.

        >>> tree = Tree(10, (4,), 1, (Fraction(1),), (2.0,))
        >>> [tree.edge(leaf) for leaf in range(5)], [tree.leaves_by(n) for n in (0, 2, 4, 5, 10)]
        ([0, 2, 5, 7, 10], [0, 1, 1, 2, 4])
        """
        return min(self.leaves, ((values + 1) * self.leaves - 1) // self.length)


class GuidedRun(PerturberRun, Protocol):
    """A guided perturber at work: it is told before each block which tree to measure it with."""

    choice: int  # which option measures the open block

    @property
    def number(self) -> int:
        """Blocks completed in this horizon."""
        ...

    @property
    def options(self) -> tuple[Tree, ...]:
        """The trees to choose from for the block that comes next; public."""
        ...

    def begin(self, choice: int) -> None:
        """Measure the next block by this option. The choice may depend on released data only."""
        ...


class GuidedPerturber(Protocol):
    """Stage 2 in another form: blocks of any length, each with a tree that a forecaster chose.

    (Or with the only tree that there is: a fixed hierarchy fulfils this contract too.)
    """

    @property
    def epsilon(self) -> Fraction:
        """The budget of every value."""
        ...

    @property
    def horizon(self) -> int:
        """The longest range that should be answered well."""
        ...

    @property
    def block(self) -> int:
        """Phases and blocked windows are whole numbers of so many values."""
        ...

    @property
    def guarantee(self) -> Guarantee:
        """What the noisy sums cost the values after the hold-out."""
        ...

    def lengths(self, chunk: int) -> tuple[int, ...]:
        """The lengths of the blocks of a horizon: public, by position alone."""
        ...

    def trees(self, length: int, threshold: int, ceiling: int) -> tuple[Tree, ...]:
        """The options for a block of this length, if θ is `threshold` and the bound `ceiling`."""
        ...

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """All that decides about noise, for every choice that can come: other noise, other text."""
        ...

    def check(self, ceiling: int) -> None:
        """Refuse settings for which a threshold up to `ceiling` could overflow 64-bit integers."""
        ...

    def start_guided(self, threshold: int, ceiling: int, keystream: Keystream) -> GuidedRun:
        """Begin; the first block waits for `begin`."""
        ...

    def settings(self) -> dict[str, Any]:
        """The stage as plain data."""
        ...


class ForecasterRun(Run, Protocol):
    """A forecaster at work: sees the trees and the released sums of their leaves, nothing else."""

    prediction: float  # of one more value, in lattice units

    def choose(self, options: tuple[Tree, ...], first: bool) -> int:
        """Which tree the next block should be measured with; `first`: a horizon begins."""
        ...

    @property
    def opinion(self) -> int:
        """How far it trusts each of its models (`tidegate.forecast.opinions`).

        A function of released data, kept with the record.
        """
        ...

    def begin(self, tree: Tree) -> None:
        """A block begins."""
        ...

    def resume(self, tree: Tree) -> None:
        """The state was restored; this is the tree of the open block."""
        ...

    @property
    def room(self) -> int:
        """Values until the block ends."""
        ...

    def push(self, noisy: Noisy, out: FloatArray) -> None:
        """Fill `out` with what is published for as many values, at most `room`, in lattice units.

        `noisy` are the leaves that these values completed.
        """
        ...

    def push_one(self, noisy: int | None) -> float:
        """The same for a single value."""
        ...


class Forecaster(Protocol):
    """Stage 3 in another form: from noisy leaf sums to running totals, and the next tree."""

    @property
    def allowance(self) -> float:
        """What is added to every value for what truncation takes away, as a share of θ."""
        ...

    def check(self, perturber: GuidedPerturber) -> None:
        """Refuse a perturber whose trees cannot be followed."""
        ...

    def start_forecast(self, *, threshold: int, perturber: GuidedPerturber) -> ForecasterRun:
        """Begin, knowing public facts only."""
        ...

    def settings(self) -> dict[str, Any]:
        """The stage as plain data."""
        ...
