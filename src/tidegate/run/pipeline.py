"""The frozen specification of a release: three stages, a resolution, and what they imply."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate import estimate, units
from tidegate.errors import SettingError
from tidegate.guarantee import EVENT, Guarantee, parallel, sequential
from tidegate.lattice import Lattice
from tidegate.ownership import Ownership
from tidegate.randomness import Randomness, secure
from tidegate.record.segments.segment_method import SegmentMethod
from tidegate.run import two_sided_caps
from tidegate.run.known_answers import KnownAnswers
from tidegate.run.refinement_schedule import Refinement
from tidegate.run.release import Release
from tidegate.run.resolution_by_default import decide_resolution
from tidegate.run.stages_by_kind import parsed_stage_fields, specification_by_kind
from tidegate.run.threshold_schedule_and_reselection import ONCE, Reselection, ThresholdSchedule
from tidegate.settings import (
    Flag,
    Lower,
    OptionalExact,
    OptionalWhole,
    Resolution,
    Spec,
    digest,
)
from tidegate.stages import Estimator, Perturber, Threshold, fulfils
from tidegate.state_as_bytes import understood
from tidegate.units import Unit

if TYPE_CHECKING:
    from tidegate.run.event_ticks import Ticks

_HORIZONS_KEPT = 16
_NOT_ALWAYS = "lower", "ticks", "threshold_step"  # settings that older states do not have


@dataclass(frozen=True, kw_only=True, repr=False)
class Pipeline(Spec):
    """Threshold, perturber and estimator, put together; `start` it to release a stream.

    Args:
        threshold: how the truncation level is chosen (`tidegate.threshold`).
        perturber: how noise is added (`tidegate.perturb`).
        estimator: how values are predicted from noisy sums (`tidegate.estimate`); `Mixture` also
            chooses which blocks are measured finely.
        resolution: values are rounded to multiples of this. Public, never read off the data. None:
            a fine one, by the bound (`tidegate.lattice.default_resolution`), as presets do.
        non_negative: publish no negative values (see `tidegate.run.non_negative`).
        lower: public lower bound of a value, 0 or below; smaller values count as this. Below 0,
            both ends of what counts are chosen privately (`tidegate.run.two_sided_caps`).
        unit: what the guarantee protects (`tidegate.units`): an event, a window, a user.
        reselect: when to choose the threshold again (`Reselection`), or how to release the values
            that choose, too (`Refinement`); None: never.
        history: how many released values `query` can look back on; None: 16 horizons.
        ticks: of an event stream (`tidegate.events`); None: every value is a row.
        threshold_step: thresholds to choose from are multiples of this, a multiple of the
            resolution; None: of the resolution, or decided with it.

    >>> from tidegate import estimate, perturb, threshold
    >>> pipeline = Pipeline(
    ...     threshold=threshold.Fixed(21),
    ...     perturber=perturb.Hierarchy(epsilon=0.1, horizon=2**20),
    ...     estimator=estimate.Recent(),
    ... )
    >>> print(pipeline.guarantee)
    ε = 0.1 per event (exact arithmetic, central model)
    """

    KIND: ClassVar[str] = "pipeline.Pipeline"

    threshold: Threshold
    perturber: Perturber
    estimator: Estimator = estimate.Recent()
    resolution: Resolution = Resolution(default=1)
    non_negative: Flag = Flag(default=False)
    unit: Unit = units.Event()
    reselect: Reselection | Refinement | None = None
    history: OptionalWhole = OptionalWhole(minimum=1)
    lower: Lower = Lower()
    ticks: Ticks | None = None
    threshold_step: OptionalExact = OptionalExact(default=None)

    def __post_init__(self) -> None:
        contracts: list[tuple[str, type, str]] = [
            ("threshold", Threshold, "threshold.Fixed(21)"),
            ("perturber", Perturber, "perturb.Hierarchy(epsilon=0.1, horizon=1000)"),
            ("estimator", Estimator, "estimate.Recent()"),
        ]
        for name, contract, example in contracts:
            stage = getattr(self, name)
            if isinstance(stage, type) or not fulfils(stage, contract):
                raise SettingError(name, f"must be a stage such as tidegate.{example}")
        if not isinstance(self.unit, Unit):
            raise SettingError("unit", "must be a unit such as tidegate.units.Window(length=60)")
        again = self.reselect
        if not isinstance(again, Reselection | Refinement | None):
            raise SettingError("reselect", "must be a tidegate.Reselection, or None")
        if self.lower and self.non_negative:
            raise SettingError("non_negative", "must be False where `lower` is below 0")
        if self.ticks is not None and not hasattr(type(self.ticks), "release_kind"):
            raise SettingError("ticks", "must be a tidegate.run.event_ticks.Ticks, or None")
        self.schedule.check(self)
        if self.ticks is None and isinstance(self.unit, units.AddedEvent):
            raise SettingError("unit", "AddedEvent() needs `ticks`")
        if self.native and self.perturber.guarantee.unit != self.unit.name:
            protected = self.perturber.guarantee.unit
            raise SettingError("unit", f"must be the one that the perturber protects: {protected}")
        if self.native and again is not None:
            # Its run would forget, at every switch, what the window before has spent.
            protected = self.perturber.guarantee.unit
            raise SettingError(
                "reselect", f"must be None for a perturber that protects a {protected}"
            )
        if self.__dict__["resolution"] is None:
            decide_resolution(self)
        elif self.threshold_step is not None and self.threshold_step <= self.resolution:
            self.__dict__["threshold_step"] = None  # of a pipeline with another resolution
        self.measurer.check(self.widest)
        self.estimator.check(self.perturber)

    @cached_property
    def ceiling(self) -> int:
        """The largest θ, and the largest cap, that can be chosen, in lattice units: public."""
        return max(rule.ceiling(self.lattice) for rule in self.rules)

    @property
    def widest(self) -> int:
        """The largest possible distance between both caps, in lattice units: public."""
        return self.ceiling + self.lattice.bottom

    @property
    def rules(self) -> list[Threshold]:
        """The stages that choose a threshold."""
        first, later = self.threshold, self.schedule.later_rule(self.threshold)
        return [first] if later is first else [first, later]

    @property
    def schedule(self) -> ThresholdSchedule:
        """When thresholds are chosen: once, again at set positions, or by ticks of events."""
        return self.ticks or self.reselect or ONCE

    @cached_property
    def measurer(self) -> Perturber:
        """The perturber; in a refined release, for every budget that a block can have."""
        return self.schedule.measurer(self)

    @property
    def holdout(self) -> int:
        """How many values choose the threshold and are not released."""
        return 0 if self.schedule.releases_warm_up else self.threshold.holdout

    @property
    def warm_up(self) -> int:
        """How many first values choose θ: they are released, and measured once θ is known."""
        return self.schedule.warm_up(self)

    @cached_property
    def method(self) -> SegmentMethod:
        """The perturber and the estimator, as records need them."""
        stages, lattice, history = (self.measurer, self.estimator), self.lattice, self.kept_history
        bounded, budgets, depth = self.ticks is None, self.schedule.budgets(self), lattice.bottom
        grain = lattice.grain
        return SegmentMethod(
            *stages, self.ceiling, lattice.step, history, bounded, budgets, depth, grain
        )

    @cached_property
    def lattice(self) -> Lattice:
        """The lattice that turns values into integers."""
        kind = Lattice if self.ticks is None else self.ticks.lattice_kind
        grain = (self.threshold_step or self.resolution) / self.resolution
        if grain.denominator != 1 or not grain:
            raise SettingError("threshold_step", "must be a multiple of the resolution")
        return kind(self.threshold.bound, self.resolution, self.lower, grain.numerator)

    @property
    def choice_guarantee(self) -> Guarantee:
        """The cost of choosing the threshold, or both caps, for the held-out values."""
        return two_sided_caps.guarantee(self.threshold, self.lattice)

    @cached_property
    def guarantee(self) -> Guarantee:
        """The guarantee for the unit: the larger cost of hold-out and stream, which are disjoint.

        If the perturber protects the unit itself, a unit may lie across both, and they add up.
        """
        if self.schedule.releases_warm_up:  # it is part of the stream
            return self.stream_guarantee
        if self.native:
            hold_out = self.unit.widen(self.choice_guarantee)
            return sequential(hold_out, self.perturber.guarantee)
        return self.unit.widen(
            parallel(self.choice_guarantee, self.schedule.stream_guarantee(self))
        )

    @cached_property
    def native(self) -> bool:
        """Whether the perturber protects the unit itself, without group privacy."""
        return self.perturber.guarantee.unit != EVENT

    @property
    def stream_guarantee(self) -> Guarantee:
        """The guarantee of the values after the hold-out, for the unit."""
        if self.native:
            return self.perturber.guarantee
        return self.unit.widen(self.schedule.stream_guarantee(self))

    @property
    def choices(self) -> tuple[Fraction, ...]:
        """Parts of a choice's budget: all for θ, or for scale and shape if values below 0 count."""
        return two_sided_caps.PARTS if self.lower else (Fraction(1),)

    @cached_property
    def kept_history(self) -> int:
        """How many released values queries can look back on."""
        return self.history or _HORIZONS_KEPT * self.perturber.horizon

    def keeping(self, values: int) -> Pipeline:
        """This pipeline with a longer memory; a larger `history` would change the noise's key."""
        if values <= self.kept_history:
            return self
        longer = copy(self)
        for decided in ("method", "known"):
            longer.__dict__.pop(decided, None)
        longer.__dict__["kept_history"] = values
        return longer

    def settings(self) -> dict[str, Any]:
        """The specification as plain data; some fields only where they are used.

        Noise keys are derived from a digest of it. A field that was added later is left out at its
        default, so that older states keep their keys.
        """
        unused = {name for name in _NOT_ALWAYS if not getattr(self, name)}
        return {name: value for name, value in super().settings().items() if name not in unused}

    @cached_property
    def settings_digest(self) -> str:
        """The digest that ties a snapshot to its pipeline."""
        return digest(self.settings()).hex()

    @cached_property
    def resolved_settings(self) -> dict[str, Any]:
        """The settings with all defaults resolved: the identity of the noise."""
        return {**self.settings(), "block": self.perturber.block}

    def noise_identity(self, width: int, below: int = 0) -> bytes:
        """The identity that keys a stream's noise: settings, θ in units, and noise scales.

        θ is the distance between both caps, of which `below` lies below 0.

        It contains every scale that any choice can lead to, and the addresses of random words:
        other settings must never get the same noise.
        """

        def found() -> bytes:
            law = self.measurer.noise_identity(width, self.ceiling + below)
            facts = {**self.resolved_settings, "threshold in units": width, "law": law}
            if below:
                facts["below 0 in units"] = below
            return digest(facts)

        return self.known.of(("identity", width, below), found)

    @cached_property
    def known(self) -> KnownAnswers:
        """A cache for this pipeline only: equal pipelines may resolve defaults differently."""
        return KnownAnswers()

    def start(self, randomness: Randomness | None = None) -> Release:
        """Begin a release with new noise; `seeded(n)` only to simulate."""
        source = secure() if randomness is None else randomness
        if not hasattr(source, "new_epoch"):
            raise SettingError("randomness", "must be tidegate.secure() or tidegate.seeded(7)")
        ownership = Ownership()  # before there is a secret that a forked process could share
        return self._kind(self, source.new_epoch(), ownership=ownership)

    @property
    def _kind(self) -> type[Release]:
        return Release if self.ticks is None else self.ticks.release_kind

    def resume(self, snapshot: bytes, key: bytes | None = None) -> Release:
        """Continue from a snapshot of this pipeline, bit for bit (see `Release.snapshot`)."""
        with understood():
            return self._kind._resumed(self, snapshot, key)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Pipeline:
        """Rebuild a pipeline from what `settings()` returned."""
        return specification_by_kind(cls, parsed_stage_fields(settings))
