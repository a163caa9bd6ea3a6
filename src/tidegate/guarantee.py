"""What a release promises, as data: stated by the stages, composed here, never typed in.

>>> threshold = Guarantee(epsilon=Fraction(1, 10))
>>> stream = Guarantee(epsilon=Fraction(1, 10))
>>> print(parallel(threshold, stream))  # disjoint values: hold-out, then stream
ε = 0.1 per event (exact arithmetic, central model)
>>> print(sequential(threshold, stream))  # the same values twice
ε = 0.2 per event (exact arithmetic, central model)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from tidegate.errors import SettingError
from tidegate.exact_numbers import exact

EVENT = "event"
ADDED = "event that is added or removed"
PUBLIC = "length, positions, times and arrival times, all settings, and the chosen threshold"
PUBLIC_OF_EVENTS = "the ticks of the clock, when it was advanced, all settings, and the threshold"
OF_ANY_KEY = " of any key"
OF_USERS = "user"  # how units begin that hold values of one user, wherever they are
_NEIGHBOURS = {
    ADDED: "two logs that differ in one event (it is in one of them and not in the other)",
    ADDED + OF_ANY_KEY: "two logs that differ in one event of one key (it is in one of them)",
    EVENT + OF_ANY_KEY: "two keyed streams that differ in one value, at one position of one key "
    "(the value is replaced; no row moves to another key or position)",
}


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
        rho: ρ of concentrated differential privacy (zCDP), for Gaussian noise; None: not known.
            Composed exactly; (ε, δ) is then what ρ is worth at this δ (`concentrated`).
    """

    epsilon: Fraction | float
    delta: Fraction | float = Fraction(0)
    unit: str = EVENT
    model: str = "central"
    arithmetic: str = "exact"
    simulation: bool = False
    rho: Fraction | None = None

    @property
    def neighbours(self) -> str:
        """The definition of neighbouring inputs, by unit and model.

        >>> from tidegate.units import Window
        >>> Window(length=60).widen(Guarantee(epsilon=Fraction(1, 60))).neighbours
        'two streams that differ in one window of 60 consecutive values (values are replaced)'
        """
        if self.unit in _NEIGHBOURS:
            return _NEIGHBOURS[self.unit]
        if self.unit != EVENT:
            return f"two streams that differ in one {self.unit} (values are replaced)"
        if self.model != "central":
            return "two values that one device may have in one round"
        return "two streams that differ in one value at one position (the value is replaced)"

    @property
    def public(self) -> str:
        """The facts that are published by definition and not protected."""
        known = PUBLIC_OF_EVENTS if self.unit.startswith(ADDED) else PUBLIC
        keys = "the declared keys" if known != PUBLIC else "keys, how many rows each has"
        return f"{keys}, and of each key: {known}" if self.unit.endswith(OF_ANY_KEY) else known

    @property
    def holds(self) -> bool:
        """Whether there is any guarantee."""
        endless = isinstance(self.epsilon, float) and not math.isfinite(self.epsilon)
        return not endless and not self.simulation

    def plain(self) -> dict[str, Any]:
        """The guarantee as plain data, with exact numbers as text."""
        exact = {"epsilon": str(self.epsilon), "delta": str(self.delta)}
        return {**asdict(self), **exact, "rho": None if self.rho is None else str(self.rho)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Guarantee:
        """The guarantee from what `plain()` returned.

        >>> Guarantee.from_plain(Guarantee(epsilon=Fraction(2, 3)).plain()).epsilon
        Fraction(2, 3)
        """
        if plain["epsilon"] == "inf":
            epsilon: Fraction | float = math.inf
        else:
            epsilon = _exact("epsilon", plain["epsilon"])
        rho = None if plain.get("rho") is None else _exact("rho", plain["rho"])
        delta = _exact("delta", plain["delta"])
        return cls(**{**plain, "epsilon": epsilon, "delta": delta, "rho": rho})

    def __str__(self) -> str:
        if self.simulation:
            return "none (simulation): the noise came from a seed and can be subtracted"
        delta = f", δ = {float(self.delta):.3g}" if self.delta else ""
        rho = "" if self.rho is None else f"ρ = {_short_guarantee(self.rho)} (zCDP), which gives "
        return (
            f"{rho}ε = {_short_guarantee(self.epsilon)}{delta} per {self.unit} "
            f"({self.arithmetic} arithmetic, {self.model} model)"
        )

    def _repr_html_(self) -> str:
        from tidegate.tables import html  # on demand: only notebooks need it

        rows = [("protects", self.neighbours), ("public", self.public)]
        return html.facts(str(self), rows)


_exact = lru_cache(maxsize=64, typed=True)(exact)  # every resume reads the same few numbers


def _short_guarantee(number: Fraction | float) -> str:
    try:
        return f"{float(number):.6g}"
    except OverflowError:  # a fraction beyond every float
        return "more than 1e308"


def free() -> Guarantee:
    """The cost of a stage that reads no data."""
    return Guarantee(epsilon=Fraction(0))


def concentrated(rho: Fraction, delta: Fraction, unit: str = EVENT) -> Guarantee:
    """A ρ-zCDP guarantee, with the (ε, δ)-DP that it implies.

    >>> print(concentrated(Fraction(1, 200), Fraction(1, 10**6)))
    ρ = 0.005 (zCDP), which gives ε = 0.429941, δ = 1e-06 per event (exact ...)
    """
    return Guarantee(epsilon=concentrated_epsilon(rho, delta), delta=delta, unit=unit, rho=rho)


def concentrated_epsilon(rho: Fraction, delta: Fraction | float) -> float:
    """An ε such that ρ-zCDP implies (ε, δ)-DP, rounded up.

    For every α > 1, ρ-zCDP implies (ε, δ)-DP with

        ε = ρα + (ln(1/δ) − ln α)/(α − 1) + ln(1 − 1/α)

    (Canonne, Kamath, Steinke 2020, proposition 12). Every α gives a true statement, so the search
    for the best one needs no precision; the last factor covers the rounding of one evaluation.
    """
    if not 0 < delta < 1:
        raise SettingError("delta", "must lie between 0 and 1 for concentrated privacy")

    cost_in_rho, digits = float(rho), -math.log(delta)  # once: fractions may be long

    def bound(log_excess: float) -> float:
        excess = math.exp(log_excess)
        gain = digits - math.log1p(excess)
        return cost_in_rho * (1 + excess) + gain / excess - math.log1p(1 / excess)

    low, high = -30.0, 30.0  # the bound falls, then rises, in ln(α − 1)
    for _ in range(200):
        third = (high - low) / 3
        if low + third == low and high - third == high:
            break  # neighbouring floats: nothing would move any more
        if bound(low + third) < bound(high - third):
            high -= third
        else:
            low += third
    return max(0.0, bound((low + high) / 2)) * (1 + 1e-12)


def simulated(guarantee: Guarantee) -> Guarantee:
    """The guarantee of a simulation: none, since anyone can recompute seeded noise."""
    return replace(guarantee, epsilon=math.inf, delta=1.0, simulation=True, rho=None)


def cost(guarantee: Guarantee, *, simulation: bool) -> Guarantee:
    """The cost of a run: `guarantee`, or none if it is a simulation."""
    return simulated(guarantee) if simulation else guarantee


def grouped(guarantee: Guarantee, size: int, unit: str) -> Guarantee:
    """Group privacy: the guarantee for a unit of up to `size` events.

    Replace the events one after the other: ε adds up, and δ is multiplied by e^ε on the way, so
    δ_size = δ·(e^(size·ε) − 1)/(e^ε − 1). Under zCDP, ρ is multiplied by size² and δ stays.
    """
    delta = guarantee.delta
    if guarantee.rho is not None:
        rho = size * size * guarantee.rho
        return replace(guarantee, epsilon=concentrated_epsilon(rho, delta), unit=unit, rho=rho)
    if delta and size > 1:
        delta = min(1.0, float(delta) * _guarantee_growth(size, float(guarantee.epsilon)))
    return replace(guarantee, epsilon=size * guarantee.epsilon, delta=delta, unit=unit)


def _guarantee_growth(size: int, step: float) -> float:
    """(e^(size·ε) − 1)/(e^ε − 1)."""
    try:
        return math.expm1(size * step) / math.expm1(step) if step else float(size)
    except OverflowError:
        return math.inf


def sequential(first: Guarantee, *others: Guarantee) -> Guarantee:
    """Sequential composition: the same values are used several times; budgets add up."""
    guarantees = (first, *others)
    rhos = worth_in_rho(guarantees)
    return _composed_guarantee(
        guarantees,
        epsilon=sum((g.epsilon for g in others), start=first.epsilon),
        delta=min(1, sum((g.delta for g in others), start=first.delta)),
        rho=None if rhos is None else sum(rhos, start=Fraction(0)),
    )


def parallel(first: Guarantee, *others: Guarantee) -> Guarantee:
    """Parallel composition: each value is used by at most one of these; the largest counts.

    The split must not depend on the values; ours is by position (hold-out, then chunks).
    """
    guarantees = (first, *others)
    rhos = worth_in_rho(guarantees)
    return _composed_guarantee(
        guarantees,
        epsilon=max(g.epsilon for g in guarantees),
        delta=max(g.delta for g in guarantees),
        rho=None if rhos is None else max(rhos),
    )


def by_key(of_one_key: Guarantee) -> Guarantee:
    """The guarantee of many streams, one for each key, from that of one key's stream.

    Parallel composition: a row belongs to one key, whatever its value, and only the stream of that
    key reads it; the noise of keys is independent. So everything that is published about all keys
    costs a value what its own stream costs it. Another key would be two changes, in two streams:
    2ε. Keys, and so which rows a key has, are public; of events the declared keys alone.

    >>> print(by_key(Guarantee(epsilon=Fraction(1, 10))))
    ε = 0.1 per event of any key (exact arithmetic, central model)
    """
    return replace(of_one_key, unit=of_one_key.unit + OF_ANY_KEY)


def worth_in_rho(guarantees: Sequence[Guarantee]) -> list[Fraction] | None:
    """The guarantees in ρ, if one is concentrated, none approximate; pure ε is worth ρ = ε²/2."""
    if all(g.rho is None for g in guarantees):
        return None
    known = [
        Fraction(g.epsilon) ** 2 / 2 if g.rho is None and not g.delta and g.holds else g.rho
        for g in guarantees
    ]
    return [rho for rho in known if rho is not None] if None not in known else None


def _composed_guarantee(
    guarantees: tuple[Guarantee, ...],
    epsilon: Fraction | float,
    delta: Fraction | float,
    rho: Fraction | None,
) -> Guarantee:
    units = {g.unit for g in guarantees}
    models = {g.model for g in guarantees}
    if len(units) > 1 or len(models) > 1:
        raise SettingError("guarantee", "cannot compose different privacy units or models")
    if rho is not None:
        delta = max(g.delta for g in guarantees)
        epsilon = concentrated_epsilon(rho, delta)
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        unit=units.pop(),
        model=models.pop(),
        arithmetic="float" if any(g.arithmetic == "float" for g in guarantees) else "exact",
        simulation=any(g.simulation for g in guarantees),
        rho=rho,
    )
