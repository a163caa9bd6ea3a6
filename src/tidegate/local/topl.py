"""The local model put together: what is asked of devices, and what a server makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee, cost, parallel
from tidegate.lattice import Lattice
from tidegate.local.collection import Collection
from tidegate.local.questions import ValueQuestion
from tidegate.local.reports import report_question
from tidegate.local.simulation import Simulation, run
from tidegate.local.survey import Given, Survey
from tidegate.randomness import Randomness, secure
from tidegate.settings import Epsilon, Exact, Flag, OptionalExact, Spec, Whole, digest


@dataclass(frozen=True, kw_only=True, repr=False)
class Topl(Spec):
    """ToPL, the paper's local model, with a better default: no server sees a raw value.

    Every device sends one message about one value, drawn from integer weights of which it has
    checked that they cost at most ε. The first `holdout` devices are asked for the threshold, the
    others report their value, cut at it. Which device is asked what is decided by its place in the
    queue, never by its value, and what is asked depends on earlier messages only. One value takes
    part once, so the guarantee is the larger of the two budgets.

    >>> topl = Topl(epsilon=1, bound=1657, threshold=40)
    >>> print(topl.guarantee)
    ε = 1 per event (exact arithmetic, local model)
    """

    epsilon: Epsilon = Epsilon()
    bound: Exact = Exact()
    resolution: Exact = Exact(default=1)
    holdout: Whole = Whole(minimum=1, default=65_536)
    horizon: Whole = Whole(minimum=1, default=2**20)
    threshold_epsilon: OptionalExact = OptionalExact(default=None)
    keep_asking: Flag = Flag(default=True)
    threshold: OptionalExact = OptionalExact(default=None)

    @cached_property
    def lattice(self) -> Lattice:
        """Values as whole steps."""
        return Lattice(self.bound, self.resolution)

    @property
    def survey_epsilon(self) -> Fraction:
        """What an answer that helps to choose the threshold costs."""
        return self.epsilon if self.threshold_epsilon is None else self.threshold_epsilon

    @property
    def guarantee(self) -> Guarantee:
        """Derived: every value takes part in one phase, so the larger of their costs."""
        return parallel(
            Guarantee(epsilon=self.survey_epsilon, model="local"),
            Guarantee(epsilon=self.epsilon, model="local"),
        )

    @property
    def survey(self) -> Survey:
        """How the threshold is chosen."""
        if self.threshold is None:
            raise SettingError("threshold", "must be given")
        return Given(max(1, round(self.threshold / self.resolution)))

    def question(self, threshold: int) -> ValueQuestion:
        """What a device of the stream is asked: its value, cut at `threshold` steps."""
        return report_question(self.epsilon, threshold)

    def collection(self, state: Mapping[str, Any] | None = None) -> Collection:
        """The server's state machine, from the beginning or from its `plain()` state."""
        made = Collection(
            survey=self.survey,
            reporter=self.question,
            threshold_epsilon=self.survey_epsilon,
            epsilon=self.epsilon,
            step=self.lattice.step,
        )
        if state is not None:
            made.restore(state)
        return made

    def simulate(self, values: Any, randomness: Randomness | None = None) -> Simulation:
        """All devices and their server at once: `values` in the order in which they are asked."""
        source = secure() if randomness is None else randomness
        if not hasattr(source, "new_epoch"):
            raise SettingError("randomness", "must be tidegate.secure() or tidegate.seeded(7)")
        steps = self.lattice.units(self.lattice.numbers(values))
        epoch = source.new_epoch()
        collection = self.collection()
        keystream = epoch.keystream("local/simulation", digest(self.settings()))
        released = run(collection, steps, keystream)
        guarantee = cost(self.guarantee, simulation=epoch.simulation)
        return Simulation(released, guarantee, collection)
