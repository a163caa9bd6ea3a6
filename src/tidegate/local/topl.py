"""`Topl`: settings of the local model: the questions to devices, and the server's choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate.errors import SettingError
from tidegate.exact_numbers import Number
from tidegate.guarantee import Guarantee, cost, parallel
from tidegate.lattice import COARSE, Lattice, default_resolution
from tidegate.local.mechanisms.stochastic_rounding import LARGEST, SMALLEST
from tidegate.local.questions import ValueQuestion
from tidegate.local.report_variance import MECHANISMS
from tidegate.local.round_schedule import (
    ADAPTIVE,
    AUTHORS,
    PERCENTILE,
    PUBLISHED,
    RoundRepetition,
    asked_in_first_round,
    check_round_is_announceable,
    first_scheduled_survey,
    later_scheduled_surveys,
    refuse_hopeless_rounds,
)
from tidegate.local.running_sums import CAPACITY
from tidegate.local.server_collection import ServerCollection
from tidegate.local.survey import Survey
from tidegate.local.topl_simulation import Simulation, refuse_to_simulate_below, run_simulation
from tidegate.randomness import Randomness, secure
from tidegate.settings import (
    Choice,
    Epsilon,
    Exact,
    Flag,
    Lower,
    OptionalChoice,
    OptionalExact,
    OptionalWhole,
    Resolution,
    Spec,
    Whole,
    digest,
)
from tidegate.state_as_bytes import State

if TYPE_CHECKING:
    from tidegate.local.client import Client
    from tidegate.local.device_memory import Memory
    from tidegate.local.server import Server

_LARGEST_TOP = 1 << 31  # of a wave's domain


class ToplReportEpsilon(Epsilon):
    """The ε of one report, in the range for which 32-bit weights are precise enough."""

    smallest = SMALLEST
    largest = LARGEST


@dataclass(frozen=True, kw_only=True, repr=False)
class Topl(Spec):
    """ToPL, the paper's local model, with a better default: no server sees a raw value.

    Every device sends one message about one value, drawn from integer weights of which it has
    checked that they cost at most ε. The first `holdout` devices help to choose the threshold; the
    others report their value, cut at it.

    **Privacy.** Released: one report of each device. Which question a device gets is decided by its
    place in the queue or by its name, never by its value; what is asked depends on earlier reports
    only (sequentially interactive). Each question is checked in exact arithmetic, by the server
    when a round opens and by the device before it answers. One value answers one question, so the
    guarantee is the larger of the two budgets; all that the server makes of the reports is
    post-processing.

    Args:
        epsilon: what a report of the stream costs.
        bound: public upper bound of a value; larger values count as this.
        lower: public lower bound of a value: 0, or below it; then some devices are asked about the
            values below 0 and others about those above, and both ends are cut.
        resolution: values are rounded to multiples of this; None: whole numbers, or, where the
            bound is below 1024, a thousandth of it or finer.
        fleet: how many reports are expected in a round (a day's devices); None: not known.
        holdout: how many devices are asked for the threshold before the stream begins, and not
            reported on. None: hundreds to thousands, by ε and fleet; later ones count twice.
        horizon: the longest range that should be answered well.
        threshold_epsilon: what an answer that helps to choose the threshold costs; None: `epsilon`.
        scheme: "adaptive": one-bit questions about the tail; "published": the paper's Square Wave
            and density, its objective corrected; "published-authors"; "percentile" (S&P 2018).
        smoothing: of the published density (EMS instead of EM).
        report: the mechanism of the stream; None: "optimal", for published schemes "hybrid".
        keep_asking: while the first eighth of the horizon is collected, every second device is
            still asked about the tail (adaptive scheme only). Its neighbour's report counts twice.
            Every horizon to come begins like this, and chooses a threshold of its own; but with no
            fewer answers than `holdout`, so every 16·`holdout` positions if that is rarer.
        threshold: given instead of chosen: nobody is asked.

    >>> print(Topl(epsilon=1, bound=1657).guarantee)
    ε = 1 per event (exact arithmetic, local model)
    """

    KIND: ClassVar[str] = "local.Topl"

    epsilon: ToplReportEpsilon = ToplReportEpsilon()
    bound: Exact = Exact()
    lower: Lower = Lower()
    resolution: Resolution = Resolution(default=None)
    fleet: OptionalWhole = OptionalWhole(minimum=1)
    holdout: OptionalWhole = OptionalWhole(minimum=100)
    horizon: Whole = Whole(minimum=1, default=2**20)
    threshold_epsilon: OptionalExact = OptionalExact(default=None)
    scheme: Choice = Choice(ADAPTIVE, PUBLISHED, AUTHORS, PERCENTILE, default=ADAPTIVE)
    smoothing: Flag = Flag(default=False)
    report: OptionalChoice = OptionalChoice(*MECHANISMS)
    keep_asking: Flag = Flag(default=True)
    threshold: OptionalExact = OptionalExact(default=None)

    def __post_init__(self) -> None:
        if self.__dict__["resolution"] is None:  # what is kept and compared is a number
            reach = max(self.bound, -self.lower)
            finest = min(self.bound, -self.lower or self.bound)
            step = min(default_resolution(one, COARSE) for one in (reach, finest))
            self.__dict__["resolution"] = step
        if not SMALLEST <= self.survey_epsilon <= LARGEST:
            limits = f"from {float(SMALLEST):g} to {float(LARGEST):g}"
            raise SettingError("threshold_epsilon", f"must be {limits}")
        if self.smoothing and self.scheme == ADAPTIVE:
            raise SettingError("smoothing", "belongs to the published schemes' density")
        refuse_hopeless_rounds(self)
        if self.threshold is not None and not self.resolution <= self.threshold <= self.bound:
            raise SettingError("threshold", "must lie between the resolution and the bound")
        if self.lower and self.scheme != ADAPTIVE:
            raise SettingError("lower", "published ToPL knows no values below 0: use the default")
        if self.lattice.top > _LARGEST_TOP and self.scheme != ADAPTIVE:
            raise SettingError("resolution", "too fine: bound/resolution must be at most 2**31")

    @cached_property
    def lattice(self) -> Lattice:
        """The lattice that turns values into whole steps."""
        return Lattice(self.bound, self.resolution, self.lower)

    @property
    def survey_epsilon(self) -> Fraction:
        """The cost of an answer that helps to choose the threshold."""
        return self.epsilon if self.threshold_epsilon is None else self.threshold_epsilon

    @property
    def guarantee(self) -> Guarantee:
        """Derived: every value takes part in one phase, so the larger of their costs."""
        stream = Guarantee(epsilon=self.epsilon, model="local")
        if self.threshold is not None:
            return stream
        return parallel(Guarantee(epsilon=self.survey_epsilon, model="local"), stream)

    @property
    def mechanism(self) -> str:
        """The mechanism of the stream's reports.

        The optimal table is made for values that thin out from the lower end: with values on both
        sides of 0 most lie in the middle.
        """
        skewed = self.scheme == ADAPTIVE and not self.lower
        return self.report or ("optimal" if skewed else "hybrid")

    def question(self, threshold: int) -> ValueQuestion:
        """The question to a device of the stream: its value, capped at `threshold` steps."""
        return MECHANISMS[self.mechanism](threshold, self.epsilon)

    @cached_property
    def survey(self) -> Survey:
        """The survey that chooses the threshold."""
        return first_scheduled_survey(self)

    @property
    def asked_first(self) -> int:
        """How many devices answer about the threshold before the stream begins."""
        return asked_in_first_round(self)

    @cached_property
    def again(self) -> RoundRepetition | None:
        """The surveys that choose the threshold again. None: it stays."""
        return later_scheduled_surveys(self)

    def collection(self, state: State | None = None, capacity: int = CAPACITY) -> ServerCollection:
        """The server's state machine, new or from its `plain()` state."""
        made = ServerCollection(
            survey=self.survey,
            reporter=self.question,
            again=self.again,
            threshold_epsilon=self.survey_epsilon,
            epsilon=self.epsilon,
            step=self.lattice.step,
            capacity=capacity,
        )
        if state is not None:
            made.restore(state)
        return made

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Topl:
        """The specification from what `settings()` returned.

        >>> topl = Topl(epsilon=0.1, bound=1657)
        >>> Topl.from_settings(topl.settings()) == topl
        True
        """
        known = {item.name for item in fields(cls)}
        given = {name: value for name, value in settings.items() if name != "kind"}
        for name in given:
            if name not in known:
                raise SettingError(name, "is not a setting of Topl")
        return cls(**given)

    def client(
        self,
        memory: Memory | str | Path | None = None,
        *,
        lifetime: Number | None = None,
        name: str | None = None,
        clamp: bool = False,
    ) -> Client:
        """A device (see `tidegate.local.client.Client`), which stores its reports in `memory`.

        A real device gives a path. Without one it forgets when it ends, and would spend once more.

        >>> topl = Topl(epsilon=1, bound=100)
        >>> client, server = topl.client(), topl.server()
        >>> server.collect(client.answer(server.announcement().json(), 17).json())
        >>> server.accepted
        1
        """
        from tidegate.local.client import Client  # on demand: a server needs no client
        from tidegate.local.device_memory import Memory

        return Client(
            epsilon=self.guarantee.epsilon,
            bound=self.bound,
            lower=self.lower,
            resolution=self.resolution,
            lifetime=lifetime,
            memory=Memory.volatile() if memory is None else memory,
            name=name,
            clamp=clamp,
        )

    def server(self, path: str | Path | None = None, *, by_name: bool | None = None) -> Server:
        """The server (`tidegate.local.server.Server`), with its state in a file or in memory.

        An existing file is resumed, with the same settings. `by_name`: clients are asked what goes
        with their names, not in rotation (see `tidegate.local.question_assignment`).
        """
        from tidegate.local.server import Server  # on demand: a client needs no database

        check_round_is_announceable(self)
        return Server(
            self.collection(),
            settings=self.settings(),
            guarantee=self.guarantee,
            bound=self.bound,
            lower=self.lower,
            resolution=self.resolution,
            path=path,
            by_name=by_name,
        )

    def simulate(
        self, values: Any, randomness: Randomness | None = None, *, clamp: bool = False
    ) -> Simulation:
        """Simulate all devices and their server: `values` in the order of the questions.

        Values below `lower` are refused, as by a device; with `clamp` they count as it. (Larger
        ones than the bound count as the bound, missing ones as 0.)

        >>> import tidegate as tg
        >>> topl = Topl(epsilon=2, bound=500, holdout=4096, horizon=2**15)
        >>> simulation = topl.simulate(tg.synthetic.baskets(30_000), tg.seeded(1))
        >>> simulation.released.size
        25904
        >>> 10 < simulation.threshold < 100
        True
        """
        source = secure() if randomness is None else randomness
        if not hasattr(source, "new_epoch"):
            raise SettingError("randomness", "must be tidegate.secure() or tidegate.seeded(7)")
        numbers = self.lattice.numbers(values)
        if not clamp:
            refuse_to_simulate_below(numbers, float(self.lower))
        steps = self.lattice.units(numbers)
        epoch = source.new_epoch()
        collection = self.collection()
        keystream = epoch.keystream("local/topl_simulation", digest(self.settings()))
        released = run_simulation(collection, steps, keystream)
        guarantee = cost(self.guarantee, simulation=epoch.simulation)
        return Simulation(released, guarantee, collection)
