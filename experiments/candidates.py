"""Who takes part in a comparison: every central method that can protect the unit in question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from inspect import signature
from typing import Any

import tidegate as tg

Build = Callable[[], tg.Pipeline]
ALL_ROWS = "adaptive, all rows"  # the default form, which holds nothing out


@dataclass(frozen=True)
class Question:
    """What is compared: budgets, bound and protocol."""

    epsilon: float
    bound: float
    resolution: float = 1.0
    holdout: int | None = None
    runs: int = 12
    ranges: int = 200
    seed: int = 1
    window: int | None = None

    @property
    def units(self) -> tuple[tg.units.Unit, ...]:
        """One table for each: an event, and a window if one was asked for."""
        return (
            (tg.units.Event(),)
            if self.window is None
            else (tg.units.Event(), tg.units.Window(length=self.window))
        )


# Methods that `methods` lists in forms of its own.
_NAMED = (
    *("adaptive", "flat", "pak", "pak-with-tops-stream", "pak-with-tops-threshold", "tops"),
    "zeros",
)


def candidates(
    unit: tg.units.Unit, question: Question, holdout: int, horizon: int
) -> dict[str, Callable[[], tg.Pipeline]]:
    """The methods of one table: all have ε for the same unit."""
    if isinstance(unit, tg.units.Window):
        return for_windows(unit, question, holdout, horizon)
    return methods(question, holdout, horizon)


def methods(question: Question, holdout: int, horizon: int) -> dict[str, Build]:
    """All central methods for events; ToPS with every smoother, all levels, and without a tree.

    Functions, because a method may refuse the settings of others.
    """
    epsilon, bound, resolution = question.epsilon, question.bound, question.resolution
    spec: dict[str, Any] = {"horizon": horizon, "holdout": holdout, "resolution": resolution}
    kinds = [kind for kind in tg.estimate.__all__ if getattr(tg.estimate, kind).adds_up]

    def tops(estimator: Callable[[], Any], skipped: int | None = None) -> tg.Pipeline:
        return tg.tops(epsilon, bound, estimator=estimator(), skipped=skipped, **spec)

    def other_threshold(threshold: Any) -> tg.Pipeline:
        return replace(tops(tg.estimate.Recent), threshold=threshold)

    def no_tree() -> tg.Pipeline:
        flat = tg.perturb.Flat(epsilon=epsilon, horizon=horizon)
        return replace(tops(tg.estimate.Unsmoothed), perturber=flat)

    chosen: dict[str, Any] = {"epsilon": epsilon, "bound": bound, "holdout": holdout}
    scale_free = partial(tg.threshold.ScaleFree, **chosen)
    tail_quantile = partial(tg.threshold.TailQuantile, **chosen, horizon=horizon)
    others = {
        method.name: partial(method.preset, epsilon, bound, **spec)
        for method in tg.methods.registered()
        if method.name not in _NAMED and (method.model, method.unit) == ("central", "event")
    }
    return {
        **others,
        "honaker, full": partial(tg.honaker, epsilon, bound, full=True, **spec),
        "pegasus, medians": partial(tg.pegasus, epsilon, bound, medians=True, **spec),
        "adaptive": partial(tg.adaptive, epsilon, bound, **spec),
        ALL_ROWS: partial(tg.adaptive, epsilon, bound, horizon=horizon, resolution=resolution),
        **{f"ToPS, {kind}": partial(tops, getattr(tg.estimate, kind)) for kind in kinds},
        "ToPS, no level skipped": partial(tops, tg.estimate.Unsmoothed, skipped=0),
        "ToPS, no tree": no_tree,
        "ToPS, scale-free θ": lambda: other_threshold(scale_free()),
        "ToPS, θ by tail quantile": lambda: other_threshold(tail_quantile()),
        "ToPS, θ by AboveThreshold": lambda: other_threshold(tg.threshold.AboveThreshold(**chosen)),
        "ToPS, θ by log histogram": lambda: other_threshold(tg.threshold.LogHistogram(**chosen)),
        "ToPS, θ by Cauchy noise": lambda: other_threshold(tg.threshold.CauchyQuantile(**chosen)),
        "ToPS, θ by Gaussian noise": lambda: other_threshold(
            tg.threshold.GaussianQuantile(**chosen, delta=Fraction(1, max(2, horizon) ** 2))
        ),
        "ToPS, θ = bound": lambda: other_threshold(tg.threshold.Fixed(bound)),
        "NM-E + H2": partial(tg.pak_with_tops_threshold, epsilon, bound, **spec),
        "S-PAK + Ĥ16c, θ ≤ bound": partial(tg.pak_with_tops_stream, epsilon, bound, **spec),
        "PAK, θ ≤ bound": partial(tg.pak, epsilon, bound, **spec),
        "PAK as published": partial(tg.pak, epsilon, bound, clip=False, **spec),
    }


def for_windows(
    unit: tg.units.Window, question: Question, holdout: int, horizon: int
) -> dict[str, Build]:
    """Methods whose noise is made for windows, as published; the others by group privacy."""
    epsilon, bound = question.epsilon, question.bound
    spec: dict[str, Any] = {"horizon": horizon, "resolution": question.resolution}
    found: dict[str, Build] = {}
    for method in tg.methods.registered():
        taken = signature(method.preset).parameters
        if method.model != "central":
            continue
        make = partial(method.preset, epsilon, bound)
        if method.unit == "window" and "unit" in taken:
            found[method.name] = partial(make, unit=unit, **spec)
            found[f"{method.name}, θ by hold-out"] = partial(
                make, unit=unit, holdout=holdout, **spec
            )
        elif method.unit == "window":  # `fast`: its horizon is the window
            length = {**spec, "horizon": unit.length}
            found[method.name] = partial(make, **length)
        elif "unit" in taken and method.promise == "ε":
            found[f"{method.name}, by group privacy"] = partial(
                make, unit=unit, holdout=holdout, **spec
            )
    found[ALL_ROWS] = partial(tg.adaptive, epsilon, bound, unit=unit, **spec)
    medians = partial(tg.pegasus, epsilon, bound, medians=True, unit=unit, holdout=holdout, **spec)
    found["pegasus, medians, by group privacy"] = medians
    uniform = partial(tg.sampling, epsilon, bound, unit=unit, every=1, **spec)
    found["sampling, every value (Uniform)"] = uniform
    return found
