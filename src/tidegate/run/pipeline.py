"""The frozen specification of a release: three stages, a resolution, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from tidegate import estimate, perturb, threshold, units
from tidegate.errors import SettingError, SnapshotError
from tidegate.exact_numbers import said
from tidegate.guarantee import EVENT, Guarantee, parallel, sequential
from tidegate.lattice import FINE, Lattice, default_resolution
from tidegate.ownership import Ownership
from tidegate.randomness import Randomness, secure
from tidegate.record.codec import restored_segment
from tidegate.record.record import Record
from tidegate.record.segment import Method
from tidegate.run import refinement, reselection
from tidegate.run.refinement import Refinement
from tidegate.run.release import Release
from tidegate.run.reselection import Reselection
from tidegate.sealing import understood, unseal
from tidegate.settings import Flag, OptionalWhole, Resolution, Spec, digest
from tidegate.stages import Estimator, Perturber, Threshold, fulfils
from tidegate.units import Unit

# What stored settings can name: never code from elsewhere, whatever a file says.
_STAGES: dict[str, type[Spec]] = {
    stage.KIND: stage
    for family in (threshold, perturb, estimate, units, reselection, refinement)
    for stage in (getattr(family, name) for name in family.__all__)
}
_MORE: list[Callable[[], Iterable[type[Spec]]]] = []  # asked once, for a kind that is not above
_HORIZONS_KEPT = 16
_DEEPEST = 6  # stages inside stages: a threshold in a reselection is the second
_IDENTITIES_KEPT = 256  # thresholds for which a pipeline remembers what keys the noise
_Spec = TypeVar("_Spec", bound=Spec)


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
        non_negative: publish no negative values (see `tidegate.run.non_negative.Remainder`).
        unit: what the guarantee protects (`tidegate.units`): an event, a window, a user.
        reselect: when to choose the threshold again (`Reselection`), or how to release the values
            that choose, too (`Refinement`); None: never.
        history: how many released values `query` can look back on; None: 16 horizons.

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
        if isinstance(again, Reselection) and again.threshold.bound != self.threshold.bound:
            raise SettingError("reselect", "must have the same bound as the threshold")
        if self.native and self.perturber.guarantee.unit != self.unit.name:
            protected = self.perturber.guarantee.unit
            raise SettingError("unit", f"must be the one that the perturber protects: {protected}")
        if self.native and again is not None:
            # Its run would forget, at every switch, what the window before has spent.
            protected = self.perturber.guarantee.unit
            raise SettingError(
                "reselect", f"must be None for a perturber that protects a {protected}"
            )
        if isinstance(again, Refinement):
            again.check(self.threshold, self.perturber, self.estimator)
        if self.__dict__["resolution"] is None:
            self._decide_resolution()
        self.measurer.check(self.ceiling)
        self.estimator.check(self.perturber)

    def _decide_resolution(self) -> None:
        """The finest default that 64-bit sums allow; what is kept and compared is a number."""
        rules = [self.threshold]
        if isinstance(self.reselect, Reselection):
            rules.append(self.reselect.threshold)
        steps = min(getattr(rule, "steps", FINE) for rule in rules)
        resolution = default_resolution(self.threshold.bound, steps)
        while True:
            self.__dict__["resolution"] = resolution
            try:
                self.measurer.check(self.ceiling)
                return
            except SettingError as problem:
                if problem.setting != "resolution" or resolution * 10 > 1:
                    raise
            resolution *= 10
            del self.__dict__["lattice"], self.__dict__["ceiling"]

    @cached_property
    def ceiling(self) -> int:
        """The largest θ that can come out, and the largest cap, in lattice units: public."""
        ceiling = self.threshold.ceiling(self.lattice)
        if isinstance(self.reselect, Reselection):
            ceiling = max(ceiling, self.reselect.threshold.ceiling(self.lattice))
        return ceiling

    @cached_property
    def measurer(self) -> Perturber:
        """The perturber; of a refined release, for every budget that a block can have."""
        if isinstance(self.reselect, Refinement):
            return self.reselect.trees(self.threshold, self.perturber)
        return self.perturber

    @property
    def holdout(self) -> int:
        """How many values choose the threshold without being released."""
        return 0 if isinstance(self.reselect, Refinement) else self.threshold.holdout

    @property
    def warm_up(self) -> int:
        """How many of the first values are released before they are measured, and choose θ."""
        return self.threshold.holdout if isinstance(self.reselect, Refinement) else 0

    @cached_property
    def method(self) -> Method:
        """How values are measured and estimated: what records must know."""
        step, history = self.lattice.step, self.kept_history
        return Method(self.measurer, self.estimator, self.ceiling, step, history)

    @cached_property
    def lattice(self) -> Lattice:
        """Values as integers."""
        return Lattice(self.threshold.bound, self.resolution)

    @property
    def guarantee(self) -> Guarantee:
        """Derived: hold-out and stream are disjoint, so the larger of their costs, for the unit.

        If the perturber protects the unit itself, a unit may lie across both, and they add up.
        """
        if isinstance(self.reselect, Refinement):  # the warm-up is part of the stream
            return self.stream_guarantee
        if self.native:
            hold_out = self.unit.widen(self.threshold.guarantee)
            return sequential(hold_out, self.perturber.guarantee)
        return self.unit.widen(parallel(self.threshold.guarantee, self._stream_events))

    @cached_property
    def native(self) -> bool:
        """Whether the perturber protects the unit itself, without group privacy."""
        return self.perturber.guarantee.unit != EVENT

    @property
    def stream_guarantee(self) -> Guarantee:
        """What the values after the hold-out are promised, for the unit."""
        if self.native:
            return self.perturber.guarantee
        return self.unit.widen(self._stream_events)

    @property
    def _stream_events(self) -> Guarantee:
        stream = self.perturber.guarantee
        if isinstance(self.reselect, Refinement):
            return self.reselect.guarantee(self.threshold, self.perturber)
        return stream if self.reselect is None else self.reselect.widen(stream)

    @property
    def kept_history(self) -> int:
        """How many released values queries can look back on."""
        return self.history or _HORIZONS_KEPT * self.perturber.horizon

    def resolved(self) -> dict[str, Any]:
        """The settings and what was decided from them: the identity of the noise."""
        return {**self.settings(), "block": self.perturber.block}

    def noise_identity(self, threshold: int) -> bytes:
        """What keys the noise of a stream, with θ in units: its settings and what they lead to.

        Every scale that any choice can lead to is part of it, and which words go where: other
        settings must never meet the same noise.
        """
        if threshold not in self._identities:
            if len(self._identities) >= _IDENTITIES_KEPT:
                self._identities.clear()
            law = self.measurer.noise_identity(threshold, self.ceiling)
            facts = {**self.resolved(), "threshold in units": threshold, "law": law}
            self._identities[threshold] = digest(facts)
        return self._identities[threshold]

    @cached_property
    def _identities(self) -> dict[int, bytes]:
        # Of this very pipeline, not of equal ones: what is decided from settings may differ.
        return {}

    def start(self, randomness: Randomness | None = None) -> Release:
        """Begin a release with new noise; `seeded(n)` only to simulate."""
        source = secure() if randomness is None else randomness
        if not hasattr(source, "new_epoch"):
            raise SettingError("randomness", "must be tidegate.secure() or tidegate.seeded(7)")
        ownership = Ownership()  # before there is a secret that a forked process could share
        return Release(self, source.new_epoch(), ownership=ownership)

    def resume(self, snapshot: bytes, key: bytes | None = None) -> Release:
        """Go on from a snapshot of this pipeline, bit for bit (see `Release.snapshot`)."""
        with understood():
            return Release._resumed(self, snapshot, key)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Pipeline:
        """The pipeline that `settings()` was taken of."""
        return _built(cls, _parts(settings, _DEEPEST))


def more_stages(source: Callable[[], Iterable[type[Spec]]]) -> None:
    """Let stored settings also name the stages that `source` gives, when it is first needed."""
    _MORE.append(source)


def load_record(data: bytes) -> Record:
    """A stored record (`Release.save_record`), ready to be queried."""
    header, body = unseal(data, key=None)
    if header.get("content") != "record":
        raise SnapshotError("this is not a stored record")
    with understood():
        pipeline = Pipeline.from_settings(body["settings"])
        segments = [restored_segment(pipeline.method, state) for state in body["segments"]]
        return Record(segments, body["guarantee"])


def _parts(settings: object, depth: int) -> dict[str, Any]:
    if not isinstance(settings, Mapping) or not depth:
        raise SettingError("settings", "must be those of a pipeline, as `settings()` gives them")
    return {
        name: _stage(value, depth - 1) if isinstance(value, Mapping) else value
        for name, value in settings.items()
        if name != "kind"
    }


def _stage(settings: Mapping[str, Any], depth: int) -> Any:
    values = _parts(settings, depth)
    kind = settings.get("kind")
    while isinstance(kind, str) and kind not in _STAGES and _MORE:
        _STAGES.update({stage.KIND: stage for stage in _MORE.pop()()})
    if not isinstance(kind, str) or kind not in _STAGES:
        raise SettingError(
            "kind", f"Tidegate has no stage {said(kind)}; build the pipeline in code"
        )
    return _built(_STAGES[kind], values)


def _built(specification: type[_Spec], values: Mapping[str, Any]) -> _Spec:
    known = {item.name for item in fields(specification)}  # type: ignore[arg-type]  # a dataclass
    for name in values:
        if name not in known:
            raise SettingError(said(name), f"is no setting of {specification.__name__}")
    for item in fields(specification):  # type: ignore[arg-type]  # a dataclass
        if item.default is MISSING and item.default_factory is MISSING and item.name not in values:
            raise SettingError(item.name, f"is missing: {specification.__name__} needs it")
    return specification(**values)
