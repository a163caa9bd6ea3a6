"""The protocols of the three stages: `Threshold`, `Perturber`, `Estimator`, and their runs.

    raw units → Threshold.choose (hold-out only) ┐
    raw units → PerturberRun.push ────────────── Noisy ║ EstimatorRun.push → output
                      ↑                                ║        │      └──→ record → Posterior
                      └─── which public option measures the next block

Raw values are visible in exactly two places: `Threshold.choose` and `PerturberRun.push`. All that
comes after takes `Noisy` or numbers computed from it, so that it is post-processing by type. What
goes back over the barrier is a function of released data and public settings: a choice between
public options, so blocks compose in parallel, adaptively (`perturb.adaptive.adaptive_run` has the
argument). A fixed hierarchy is a perturber with one option; a smoother is an estimator that always
chooses it.

A stage is a frozen specification (`tidegate.settings.Spec`). `start` gives a run. `state` of a run
is a plain mapping (numbers, lists, arrays) that `start` takes back whole.

Check that a stage fulfils the contract that is asked for.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Protocol

from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee
from tidegate.lattice import FloatArray, IntArray, Lattice
from tidegate.randomness import Keystream
from tidegate.stages.layout import Layout
from tidegate.stages.noisy import NoiseLaw, Noisy
from tidegate.stages.recorded_and_posterior import Cells, Posterior, Recorded
from tidegate.state_as_bytes import State

ENDLESS = 1 << 62  # more values than any stream has


class Threshold(Protocol):
    """Stage 1: choose the threshold θ at which values are truncated."""

    @property
    def bound(self) -> Fraction:
        """The public upper bound of a value."""
        ...

    @property
    def holdout(self) -> int:
        """How many values choose θ; they are never published."""
        ...

    @property
    def guarantee(self) -> Guarantee:
        """The cost of the choice for the held-out values."""
        ...

    def ceiling(self, lattice: Lattice) -> int:
        """The largest possible θ, in lattice units: a public number."""
        ...

    def choose(self, values: IntArray, lattice: Lattice, keystream: Keystream) -> int:
        """θ in lattice units, at least 1, from the held-out values."""
        ...

    def settings(self) -> dict[str, Any]:
        """The stage as plain data."""
        ...


class PerturberRun(Protocol):
    """A running perturber. Its state holds raw partial sums: as secret as the data."""

    @property
    def number(self) -> int:
        """The number of blocks completed in this horizon."""
        ...

    @property
    def options(self) -> tuple[Layout, ...]:
        """The layouts to choose from for the next block; public. Fixed methods: one."""
        ...

    def begin(self, choice: int) -> None:
        """Begin the next block with this option. The choice may depend on released data only."""
        ...

    def push(self, values: IntArray) -> Noisy:
        """Take raw units; return the noisy sums of the leaves that they completed.

        They must not reach beyond the end of the block, unless there is one option only.
        """
        ...

    def push_one(self, value: int) -> int | None:
        """Push one value; return a noisy sum if it completed a leaf, else None."""
        ...

    def state(self) -> dict[str, Any]:
        """The state that `Perturber.start` resumes from."""
        ...


class Perturber(Protocol):
    """Stage 2: noisy sums of consecutive leaves, block by block."""

    irregular: ClassVar[bool]
    """Whether spans and marks come with the noisy sums, because the run decides about them as it
    goes: which values to measure, how long a number holds. A leaf ends where its block ends, at the
    latest; the layout's leaves are the most that there can be. `push_one` is not used."""

    def __hash__(self) -> int: ...

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
        """Phases and blocked selections are multiples of this. Fixed methods: values in a leaf."""
        ...

    @property
    def guarantee(self) -> Guarantee:
        """The cost of the noisy sums for the values after the hold-out.

        Per event, or for a larger unit if the noise is made for it (a w-event method): the
        pipeline's `unit` must be that one then, and adds no group privacy.
        """
        ...

    def lengths(self, chunk: int) -> tuple[int, ...]:
        """The lengths of the blocks of a horizon: public, determined by position alone."""
        ...

    def layouts(self, length: int, threshold: int, ceiling: int) -> tuple[Layout, ...]:
        """The options for a block of this length; θ is `threshold`, and never above `ceiling`."""
        ...

    def noise_law(self, threshold: int) -> NoiseLaw | None:
        """The law of the noise of all leaves, for values truncated at `threshold` units.

        None: it depends on which options are chosen.
        """
        ...

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """The facts that determine the noise for every possible choice: other noise, other text."""
        ...

    def check(self, ceiling: int) -> Fraction | int:
        """Refuse settings for which a threshold up to `ceiling` could overflow 64-bit integers.

        The largest scale of any noise then, in lattice units.
        """
        ...

    def start(
        self, threshold: int, ceiling: int, keystream: Keystream, state: State | None = None
    ) -> PerturberRun:
        """Begin, or resume from `state`. The first block waits for `begin`."""
        ...

    def settings(self) -> dict[str, Any]:
        """The stage as plain data."""
        ...


class EstimatorRun(Protocol):
    """A running estimator: it sees layouts and released sums, nothing else."""

    prediction: float  # of one value of the open cell, in lattice units

    @property
    def filled(self) -> int:
        """How many values of the open cell have been published."""
        ...

    @property
    def model_weights(self) -> int:
        """The weights of its models: a function of released data, stored with the record."""
        ...

    def choose(self, options: tuple[Layout, ...], first: bool) -> int:
        """Choose the layout of the next block; `first`: a horizon begins."""
        ...

    def begin(self, layout: Layout) -> int:
        """Begin a block; return how many values may come before the next choice."""
        ...

    def push(self, noisy: Noisy, out: FloatArray) -> Cells:
        """Fill `out` with the published values, one for each value, in lattice units.

        `noisy` are the leaves that these values completed. If they end a block, its last cell has
        no prediction after it yet: `begin` makes it.
        """
        ...

    def push_one(self, noisy: int | None) -> float:
        """Publish one value; `noisy` is the sum of the leaf that it completed, if any."""
        ...

    def level(self, recorded: Recorded) -> float:
        """The expected next value, in lattice units."""
        ...

    def state(self) -> dict[str, Any]:
        """The state that `Estimator.start` resumes from, without the layout of the open block."""
        ...


class Saved(NamedTuple):
    """The state of an estimator: `EstimatorRun.state`, and the layout of the open block."""

    state: State
    layout: Layout | None  # None: no block is open


class Estimator(Protocol):
    """Stage 3: turns noisy leaf sums into one number per value, and into answers about ranges."""

    adds_up: ClassVar[bool]
    """Whether the published values of every leaf add up to its noisy sum. If so, published values
    are a record by themselves; if not, the record is kept with them."""

    @property
    def allowance(self) -> float:
        """An addition to every value for what truncation takes away, as a share of θ."""
        ...

    def check(self, perturber: Perturber) -> None:
        """Refuse a perturber whose layouts this estimator cannot follow."""
        ...

    def start(
        self, *, threshold: int, perturber: Perturber, saved: Saved | None = None, below: int = 0
    ) -> EstimatorRun:
        """Begin, knowing public facts only, or resume.

        Values lie between −`below` and `threshold` − `below`.
        """
        ...

    def posterior(self, recorded: Recorded, until: int) -> Posterior:
        """The posterior of the past, given what was released up to position `until`."""
        ...

    def leaves_needed(self, recorded: Recorded) -> int:
        """How many of the last leaves must be kept to continue."""
        ...

    def level_leaves(self, perturber: Perturber, threshold: int) -> int:
        """How many of the last leaves the level averages; 0: the level is the prediction."""
        ...

    def check_model_weights(self, model_weights: int) -> None:
        """Refuse weights that no run can have, with a `ValueError`: the record is damaged."""
        ...

    def settings(self) -> dict[str, Any]:
        """The stage as plain data."""
        ...


# What only a threshold, only a perturber, only an estimator has.
_MARKS = {"choose", "noise_law", "posterior"}


def fulfils(stage: object, contract: type) -> bool:
    """Whether a stage has every member that its protocol names (and is of no other kind)."""
    given = {**vars(contract), **contract.__annotations__}
    names = {name for name in given if not name.startswith("_")}
    return all(hasattr(stage, name) for name in names) and not any(
        hasattr(stage, mark) for mark in _MARKS - names
    )


def fixed_law(perturber: Perturber, threshold: int) -> NoiseLaw:
    """The noise law of a perturber with one option; refuse others."""
    law = perturber.noise_law(threshold)
    if law is None:
        raise SettingError("perturber", "must have blocks of one size, such as perturb.Hierarchy")
    return law
