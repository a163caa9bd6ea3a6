"""What a release promises, as data: made by the stages, composed here, never typed in.

>>> threshold = Guarantee(epsilon=Fraction(1, 10))
>>> stream = Guarantee(epsilon=Fraction(1, 10))
>>> print(parallel(threshold, stream))  # disjoint values: hold-out, then stream
ε = 0.1 per event (exact arithmetic, central model)
>>> print(sequential(threshold, stream))  # the same values twice
ε = 0.2 per event (exact arithmetic, central model)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from tidegate.errors import SettingError
from tidegate.settings import exact

NEIGHBOURS = "two streams that differ in one value at one position (the value is replaced)"
PUBLIC = "length, positions and arrival times, all settings, and the chosen threshold"


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """(ε, δ)-differential privacy of everything that is published.

    For neighbouring streams S, S' and every set O of outputs: P[out(S) ∈ O] ≤ e^ε P[out(S') ∈ O] +
    δ. Noise comes from an AES-256-CTR keystream, so this holds against adversaries that cannot
    break AES.

    Attributes:
        epsilon: ε, exact. Infinite when there is no guarantee (a simulation).
        delta: δ, 0 for pure differential privacy.
        unit: what one unit of privacy is; "event" is one value of the stream.
        model: "central": a trusted gate sees the raw values; "local": every device perturbs its
            own; "shuffled": local reports behind a trusted shuffler, for information.
        arithmetic: "exact" (integers only) or "float": the proof ignores rounding errors of
            floating-point noise, which are known to leak; for comparison with the literature only.
        simulation: the noise came from a seed, so that anyone can remove it.
    """

    epsilon: Fraction | float
    delta: Fraction | float = Fraction(0)
    unit: str = "event"
    model: str = "central"
    arithmetic: str = "exact"
    simulation: bool = False

    @property
    def neighbours(self) -> str:
        """Which streams cannot be told apart."""
        return NEIGHBOURS

    @property
    def public(self) -> str:
        """What is published by definition and not protected."""
        return PUBLIC

    @property
    def holds(self) -> bool:
        """Whether anything is promised at all."""
        endless = isinstance(self.epsilon, float) and not math.isfinite(self.epsilon)
        return not endless and not self.simulation

    def plain(self) -> dict[str, Any]:
        """Plain data, with exact numbers as text."""
        return {**asdict(self), "epsilon": str(self.epsilon), "delta": str(self.delta)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Guarantee:
        """The guarantee that `plain()` was taken of.

        >>> Guarantee.from_plain(Guarantee(epsilon=Fraction(2, 3)).plain()).epsilon
        Fraction(2, 3)
        """
        if plain["epsilon"] == "inf":
            epsilon: Fraction | float = math.inf
        else:
            epsilon = exact("epsilon", plain["epsilon"])
        return cls(**{**plain, "epsilon": epsilon, "delta": exact("delta", plain["delta"])})

    def __str__(self) -> str:
        if self.simulation:
            return "none (simulation): the noise came from a seed and can be subtracted"
        delta = f", δ = {float(self.delta):.3g}" if self.delta else ""
        return (
            f"ε = {_short(self.epsilon)}{delta} per {self.unit} "
            f"({self.arithmetic} arithmetic, {self.model} model)"
        )


def _short(number: Fraction | float) -> str:
    try:
        return f"{float(number):.6g}"
    except OverflowError:  # a fraction beyond every float
        return "more than 1e308"


def free() -> Guarantee:
    """The cost of a stage that never looks at the data."""
    return Guarantee(epsilon=Fraction(0))


def simulated(guarantee: Guarantee) -> Guarantee:
    """What is left of a guarantee when the noise comes from a seed: nothing."""
    return replace(guarantee, epsilon=math.inf, delta=1.0, simulation=True)


def cost(guarantee: Guarantee, *, simulation: bool) -> Guarantee:
    """What a run costs whose noise is, or is not, that of a simulation."""
    return simulated(guarantee) if simulation else guarantee


def grouped(guarantee: Guarantee, size: int, unit: str) -> Guarantee:
    """What a guarantee per event is worth for a unit of up to `size` events (group privacy).

    Replace the events one after the other: ε adds up, and δ is multiplied by e^ε on the way, so
    δ_size = δ·(e^(size·ε) − 1)/(e^ε − 1).
    """
    delta = guarantee.delta
    if delta and size > 1:
        step = float(guarantee.epsilon)
        delta = min(1.0, float(delta) * math.expm1(size * step) / math.expm1(step))
    return replace(guarantee, epsilon=size * guarantee.epsilon, delta=delta, unit=unit)


def sequential(first: Guarantee, *others: Guarantee) -> Guarantee:
    """The same values are used several times: budgets add up."""
    return _compose(
        (first, *others),
        epsilon=sum((g.epsilon for g in others), start=first.epsilon),
        delta=min(1, sum((g.delta for g in others), start=first.delta)),
    )


def parallel(first: Guarantee, *others: Guarantee) -> Guarantee:
    """Every value is used by at most one of these: the largest budget counts.

    The split must not depend on the values; ours is by position (hold-out, then chunks).
    """
    guarantees = (first, *others)
    return _compose(
        guarantees,
        epsilon=max(g.epsilon for g in guarantees),
        delta=max(g.delta for g in guarantees),
    )


def _compose(
    guarantees: tuple[Guarantee, ...], epsilon: Fraction | float, delta: Fraction | float
) -> Guarantee:
    units = {g.unit for g in guarantees}
    models = {g.model for g in guarantees}
    if len(units) > 1 or len(models) > 1:
        raise SettingError("guarantee", "cannot compose different privacy units or models")
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        unit=units.pop(),
        model=models.pop(),
        arithmetic="float" if any(g.arithmetic == "float" for g in guarantees) else "exact",
        simulation=any(g.simulation for g in guarantees),
    )
