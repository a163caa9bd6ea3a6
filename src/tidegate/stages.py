"""The contracts of the three stages, and `Noisy`, the privacy barrier between them.

    raw units → Threshold.choose (hold-out only) ┐
    raw units → PerturberRun.push ────────────── Noisy ║ SmootherRun.push → record, queries, output

Raw values are visible in exactly two places: `Threshold.choose` and `PerturberRun.push`. All that
comes after takes `Noisy` or numbers computed from it, so that it is post-processing by type.

Stages 2 and 3 come in a second form, in which blocks are not all measured alike: see
`tidegate.guided`.

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
    """What is publicly known about a perturber's noise: its identity and its second moments."""

    @property
    def identity(self) -> str:
        """All that decides about the noise, in a text that no renaming changes."""
        ...

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
    # What only a threshold, only a forecaster, only a perturber has.
    marks = {"choose", "start_forecast"} | ({"noise_law"} if "guarantee" not in names else set())
    return all(hasattr(stage, name) for name in names) and not any(
        hasattr(stage, mark) for mark in marks - names
    )


def no_sums() -> NDArray[np.int64]:
    """No block was completed."""
    return np.empty(0, dtype=np.int64)
