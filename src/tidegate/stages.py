"""The contracts of the three stages, and `Noisy`, the privacy barrier between them.

    raw units → Threshold.choose (hold-out only) ┐
    raw units → PerturberRun.push ────────────── Noisy ║ SmootherRun.push → record, queries, output

Raw values are visible in exactly two places: `Threshold.choose` and `PerturberRun.push`. All that
comes after takes `Noisy` or numbers computed from it, so that it is post-processing by type.

Stages 2 and 3 come in two forms. A `Perturber` with a `Smoother` measures blocks of one size for
ever. A `GuidedPerturber` asks before every block how it should be measured; the `Forecaster` that
answers has seen released sums only.

A stage is a frozen specification (`tidegate.settings.Spec`). `start` gives a run; a run names the
attributes that make up its state in `STATE` (plain numbers, lists or arrays), which is all that a
snapshot needs to know about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tidegate.guarantee import Guarantee
from tidegate.lattice import FloatArray, IntArray, Lattice
from tidegate.randomness import Keystream


@dataclass(frozen=True)
class Noisy:
    """Block sums with their noise, in lattice units. Only perturbers make these.

    Everything derived from a `Noisy` is post-processing and costs no privacy.
    """

    sums: IntArray


class NoiseLaw(Protocol):
    """What is publicly known about a perturber's noise: its second moments."""

    @property
    def largest_variance(self) -> float:
        """Variance of the noisiest single draw, in units²."""
        ...

    def range_variance(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """Exact variance of the noise in the sum of blocks [start, end), in units²."""
        ...


class Run(Protocol):
    """Something with state."""

    STATE: ClassVar[tuple[str, ...]]


class Threshold(Protocol):
    """Stage 1: choose the level θ at which values are truncated."""

    @property
    def bound(self) -> Fraction:
        """Public upper bound of a value."""
        ...

    @property
    def holdout(self) -> int:
        """How many values are spent on the choice; they are never published."""
        ...

    @property
    def guarantee(self) -> Guarantee:
        """What the choice costs the held-out values."""
        ...

    def ceiling(self, lattice: Lattice) -> int:
        """The largest θ that can come out, in lattice units: a public number."""
        ...

    def choose(self, values: IntArray, lattice: Lattice, keystream: Keystream) -> int:
        """θ in lattice units, at least 1, from the held-out values."""
        ...

    def settings(self) -> dict[str, Any]:
        """The stage as plain data."""
        ...


class PerturberRun(Run, Protocol):
    """A perturber at work. Its state holds raw partial sums: as secret as the data."""

    def push(self, values: IntArray) -> Noisy:
        """Take raw units; give the noisy sums of the blocks that they completed."""
        ...

    def push_one(self, value: int) -> int | None:
        """The same for a single value: a noisy sum if it completed a block, else None."""
        ...


class Perturber(Protocol):
    """Stage 2: noisy sums of consecutive blocks of values."""

    @property
    def horizon(self) -> int:
        """The longest range that should be answered well."""
        ...

    @property
    def block(self) -> int:
        """How many values make up one measured sum."""
        ...

    @property
    def guarantee(self) -> Guarantee:
        """What the noisy sums cost the values after the hold-out."""
        ...

    def noise_law(self, threshold: int) -> NoiseLaw:
        """The law of the noise for values truncated at `threshold` units."""
        ...

    def check(self, ceiling: int) -> None:
        """Refuse settings for which a threshold up to `ceiling` could overflow 64-bit integers."""
        ...

    def start(self, threshold: int, keystream: Keystream) -> PerturberRun:
        """Begin to release values truncated at `threshold` units."""
        ...

    def settings(self) -> dict[str, Any]:
        """The stage as plain data."""
        ...


@dataclass(frozen=True)
class Tree:
    """How one block of values is measured: public, and decided before its first value arrives.

    Attributes:
        length: values in the block.
        nodes: nodes per level, coarsest first; each number divides the next, the last are leaves.
        cap: values are truncated here, in lattice units.
        scales: discrete Laplace scale of a node per level, in units; Σ cap/scale ≤ ε.
        variances: the variances that follow from the scales, in units².
    """

    length: int
    nodes: tuple[int, ...]
    cap: int
    scales: tuple[Fraction, ...]
    variances: tuple[float, ...]

    @property
    def leaves(self) -> int:
        """How many sums are released."""
        return self.nodes[-1]

    def edge(self, leaf: int) -> int:
        """Where a leaf begins, counted from the beginning of the block."""
        return leaf * self.length // self.leaves


class GuidedRun(PerturberRun, Protocol):
    """A guided perturber at work: it is told before each block which tree to measure it with."""

    number: int  # blocks completed in this horizon
    choice: int  # which option measures the open block

    @property
    def options(self) -> tuple[Tree, ...]:
        """The trees to choose from for the block that comes next; public."""
        ...

    def begin(self, choice: int) -> None:
        """Measure the next block by this option. The choice may depend on released data only."""
        ...


class GuidedPerturber(Protocol):
    """Stage 2 in another form: blocks of any length, each with a tree that a forecaster chose."""

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
        """1: a stream may end, or be cut, after any value."""
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

    def choose(self, options: tuple[Tree, ...], first: bool) -> int:
        """Which tree the next block should be measured with; `first`: a horizon begins."""
        ...

    @property
    def favourite(self) -> int:
        """Which of its models has been the best so far: released data, kept with the record."""
        ...

    def begin(self, tree: Tree) -> None:
        """A block begins."""
        ...

    def resume(self, tree: Tree) -> None:
        """The state was restored; this is the tree of the open block."""
        ...

    @property
    def room(self) -> int:
        """Values until the forecast changes: the rest of the present cell."""
        ...

    def push(self, noisy: Noisy, count: int) -> tuple[float, float]:
        """`count` more values passed, at most `room`, and completed these leaves.

        Gives what to publish for all of them but the last, and for the last, in lattice units.
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

    def start_forecast(
        self, *, threshold: int, perturber: GuidedPerturber
    ) -> ForecasterRun:
        """Begin, knowing public facts only."""
        ...

    def settings(self) -> dict[str, Any]:
        """The stage as plain data."""
        ...


class SmootherRun(Run, Protocol):
    """A smoother at work: sees released sums only."""

    @property
    def first(self) -> float:
        """The prediction for the first block, before anything was released."""
        ...

    def push(self, noisy: Noisy) -> FloatArray:
        """For each new block sum, the prediction of one value of the block that follows."""
        ...


class Smoother(Protocol):
    """Stage 3: predict the values inside a block from the blocks before it."""

    def start(self, *, threshold: int, block: int, blocks: int) -> SmootherRun:
        """Begin; values lie in [0, threshold], `blocks` blocks of `block` values make a horizon."""
        ...

    def settings(self) -> dict[str, Any]:
        """The stage as plain data."""
        ...


def fulfils(stage: object, contract: type) -> bool:
    """Whether a stage has everything that its contract names (and is of no other kind)."""
    names = {name for name in vars(contract) if not name.startswith("_")}
    # What only a threshold, only a perturber, only a forecaster has.
    marks = {"choose", "noise_law", "start_guided", "start_forecast"}
    return all(hasattr(stage, name) for name in names) and not any(
        hasattr(stage, mark) for mark in marks - names
    )


def no_sums() -> NDArray[np.int64]:
    """No block was completed."""
    return np.empty(0, dtype=np.int64)
