"""From a method as a figure declares it to a release of a stream.

A declaration is one of

    preset = "tops"                       a function of tidegate, with any of its settings
    threshold, perturber, estimator       a pipeline from stages, by the names of their classes
    local = { scheme = "published" }      the local model
    zero = true                           publish zeros: the paper's Base

Settings that a figure leaves out come from the cell: epsilon, bound, horizon, holdout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from experiments.errors import ExperimentError
from experiments.figures import Protocol

Ints = NDArray[np.int64]
_COARSER = (1, 10, 100, 1000, 10_000)


@dataclass(frozen=True)
class Outcome:
    """What one run released, for which truth, with which threshold."""

    released: NDArray[np.float64]
    truth: Ints
    threshold: float
    resolution: float = 1.0


@dataclass(frozen=True)
class Budgets:
    """The epsilons of the two stages."""

    threshold: float
    stream: float

    @classmethod
    def of(cls, protocol: Protocol, epsilon: float) -> Budgets:
        if protocol.varies == "both":
            return cls(epsilon, epsilon)
        if protocol.fixed_epsilon is None or protocol.varies not in ("threshold", "stream"):
            raise ExperimentError(
                'varies must be "both", or "threshold" or "stream" beside fixed_epsilon'
            )
        fixed = protocol.fixed_epsilon
        return cls(epsilon, fixed) if protocol.varies == "threshold" else cls(fixed, epsilon)


def release(
    spec: dict[str, Any], values: Ints, bound: int, protocol: Protocol, budgets: Budgets, seed: int
) -> Outcome:
    """Run one method once on hold-out and stream."""
    held, stream = parts(values, protocol)
    truth = stream if protocol.stream == "next" else held
    if spec.get("zero"):
        threshold = 0.0
        if "threshold" in spec:
            threshold = float(_true_percentile(spec["threshold"], held, stream, protocol))
        return Outcome(np.zeros(truth.size), _truth(truth, threshold, protocol), threshold)
    if "local" in spec:
        return _local(spec["local"], values, bound, protocol, budgets, seed)
    pipeline = build(spec, held, stream, bound, protocol, budgets)
    if protocol.stream == "next":
        run = pipeline.start(tg.seeded(seed))
        released = run.push(values if pipeline.threshold.holdout else stream)
    else:
        # The text of the paper: choose from these values, then release the same ones. As a release
        # it would cost both budgets; as an experiment it shuts out that the stream has changed.
        chooser = pipeline.start(tg.seeded(seed))
        chooser.push(held[: pipeline.threshold.holdout])
        fixed = tg.threshold.Fixed(chooser.threshold or 1)
        run = replace(pipeline, threshold=fixed).start(tg.seeded(seed))
        released = run.push(held)
    threshold = run.threshold or 0.0
    return Outcome(
        released, _truth(truth, threshold, protocol), threshold, float(pipeline.resolution)
    )


def parts(values: Ints, protocol: Protocol) -> tuple[Ints, Ints]:
    """The hold-out, and the stream after it."""
    if values.size <= protocol.holdout and protocol.stream == "next":
        raise ExperimentError(
            f"{values.size:,} values are too few for a hold-out of {protocol.holdout:,}"
        )
    held, stream = values[: protocol.holdout], values[protocol.holdout :]
    return held, stream[: protocol.horizon]


def build(
    spec: dict[str, Any],
    held: Ints,
    stream: Ints,
    bound: int,
    protocol: Protocol,
    budgets: Budgets,
) -> tg.Pipeline:
    """The pipeline of a method."""
    common = {"bound": bound, "horizon": protocol.horizon, "holdout": protocol.holdout}
    if "preset" in spec:
        settings = {key: value for key, value in spec.items() if key not in ("preset", "coarsen")}
        if "estimator" in settings:
            settings["estimator"] = _stage(tg.estimate, settings["estimator"], {})
        preset = getattr(tg, spec["preset"], None)
        if preset is None or spec["preset"] not in tg.__all__:
            raise ExperimentError(f"there is no preset {spec['preset']!r} in tidegate")
        if budgets.threshold != budgets.stream:
            raise ExperimentError("a preset has one epsilon: name stages where only one varies")
        return _coarsened(
            lambda **more: preset(**{**common, "epsilon": budgets.stream, **settings, **more}),
            spec.get("coarsen", False),
        )
    chosen = spec.get("threshold", {})
    if chosen.get("kind") in ("percentile", "bound"):
        level = (
            bound if chosen["kind"] == "bound" else _true_percentile(chosen, held, stream, protocol)
        )
        threshold = tg.threshold.Fixed(level)
    else:
        threshold = _stage(
            tg.threshold,
            chosen,
            {
                **common,
                "epsilon": budgets.threshold,
                "stream_epsilon": budgets.stream,
                "delta": Fraction(1, protocol.horizon**2),
            },
        )
    perturber = _stage(tg.perturb, spec["perturber"], {**common, "epsilon": budgets.stream})
    estimator = _stage(tg.estimate, spec["estimator"], {})
    return _coarsened(
        lambda **more: tg.Pipeline(
            threshold=threshold, perturber=perturber, estimator=estimator, **more
        ),
        spec.get("coarsen", False),
    )


def _stage(family: Any, entry: dict[str, Any], common: dict[str, Any]) -> Any:
    settings = dict(entry)
    kind = settings.pop("kind", None)
    if kind is None or kind not in family.__all__:
        raise ExperimentError(
            f"{family.__name__} has no {kind!r}: choose from {', '.join(family.__all__)}"
        )
    stage = getattr(family, kind)
    known = {part.name for part in fields(stage)}
    return stage(**{key: value for key, value in common.items() if key in known} | settings)


def _coarsened(make: Callable[..., tg.Pipeline], allowed: bool) -> tg.Pipeline:
    """At the finest resolution that 64-bit sums allow: an unclipped threshold can be huge."""
    for resolution in _COARSER if allowed else _COARSER[:1]:
        try:
            return make(resolution=resolution)
        except tg.SettingError:
            if not allowed or resolution == _COARSER[-1]:
                raise
    raise AssertionError("the last resolution returns or raises")


def _true_percentile(entry: dict[str, Any], held: Ints, stream: Ints, protocol: Protocol) -> int:
    """Not private: read off the data, as the paper does where only the stream is compared."""
    values = held if protocol.percentiles == "holdout" else np.concatenate((held, stream))
    return max(1, int(np.quantile(values, entry["of"] / 100, method="inverted_cdf")))


def _truth(stream: Ints, threshold: float, protocol: Protocol) -> Ints:
    return np.minimum(stream, round(threshold)) if protocol.truth == "truncated" else stream


def _local(
    settings: dict[str, Any],
    values: Ints,
    bound: int,
    protocol: Protocol,
    budgets: Budgets,
    seed: int,
) -> Outcome:
    held, stream = parts(values, protocol)
    topl = tg.topl(
        epsilon=budgets.stream,
        threshold_epsilon=budgets.threshold,
        bound=bound,
        horizon=protocol.horizon,
        holdout=protocol.holdout,
        **settings,
    )
    run = topl.simulate(values[: held.size + stream.size], tg.seeded(seed))
    return Outcome(run.released, stream, float(run.threshold or 0))
