"""Every exported stage, made automatically, and pipelines that put each of them to work.

A new method is found by its export. If one of its required settings is not in `SETTINGS` below, the
laws fail and say so. `VARIANTS` adds settings worth a run of their own.
"""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

import tidegate as tg
from tests.depth import in_turn
from tidegate import methods
from tidegate.record.segments.segment import Segment

# Small numbers, so that a short stream crosses blocks, trees and horizons.
SETTINGS: dict[str, Any] = {
    "epsilon": "1/2",
    "delta": "1/1000000",
    "bound": 40,
    "value": 12,
    "holdout": 37,
    "horizon": 60,
}

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "threshold.Fixed": [{"value": "7/2"}],
    "threshold.NoisyMax": [
        {"selection": "laplace"},
        {"selection": "exponential"},
        {"step": 7, "stream_epsilon": 2},
        {"holdout": 1},
    ],
    "threshold.SmoothQuantile": [
        {"failure": "0.006"},
        {"clip": False},
        {"failure": "0.006", "clip": False, "percentile": 50},
    ],
    "perturb.Flat": [{"block": 5}, {"horizon": 9000}, {"block": 7, "horizon": 5}],
    "perturb.Hierarchy": [
        {"skipped": 0},
        {"skipped": 1},
        {"skipped": 2, "fanout": 3},
        {"skipped": 0, "fanout": 3, "levels": 2},
        {"skipped": 1, "fanout": 2, "shares": [3, 1, "1/2"]},
        {"skipped": 0, "fanout": 2, "levels": 6, "consistent": False},
        {"skipped": 1, "fanout": 3, "consistent": False},
        {"skipped": 0, "horizon": 1},
        {"skipped": 0, "horizon": 9000, "levels": 3},  # three groves: the rounding is carried
        {"skipped": 1, "fanout": 2, "horizon": 9001, "levels": 4, "consistent": False},
    ],
    "perturb.AdaptiveTrees": [
        {"horizon": 1},
        {"horizon": 15},
        {"horizon": 700},
        {"nodes": [1, 8]},
        {"nodes": [1, 16, 128], "horizon": 1500},
    ],
    "estimate.Mixture": [{"truncated": "1/200", "period": [24, 5]}],
    "estimate.MovingAverage": [{"window": 1}, {"window": 3}],
    "estimate.Exponential": [{"alpha": "1/10"}, {"alpha": 1}],
}

FAMILIES: dict[str, ModuleType] = {
    "threshold": tg.threshold,
    "perturb": tg.perturb,
    "estimate": tg.estimate,
}


def exported() -> dict[str, type]:
    """The stages by name, for example `estimate.Recent`."""
    found = {
        f"{family}.{name}": getattr(module, name)
        for family, module in FAMILIES.items()
        for name in module.__all__
    }
    return {name: stage for name, stage in found.items() if inspect.isclass(stage)}


def make(name: str, **chosen: Any) -> Any:
    """A stage with the settings of the table, where it has them, and those chosen."""
    stage = exported()[name]
    given = {
        item.name: chosen.get(item.name, SETTINGS.get(item.name))
        for item in fields(stage)
        if item.name in chosen or item.name in SETTINGS
    }
    try:
        return stage(**given)
    except Exception as error:
        raise AssertionError(
            f"{name} could not be made with {given}: {error!r}. If it has a required setting of "
            f"its own, add an example to SETTINGS in {__file__}"
        ) from error


def stages(family: str) -> dict[str, Any]:
    """All stages of a family, plain and in their variants."""
    made = {}
    for name in exported():
        if name.startswith(f"{family}."):
            for chosen in ({}, *VARIANTS.get(name, [])):
                label = ",".join(f"{key}={value}" for key, value in chosen.items())
                made[f"{name}({label})".replace(" ", "")] = make(name, **chosen)
    return made


def method_stages() -> list[Any]:
    """One of each stage that belongs to methods and not to a family."""
    found: dict[type, Any] = {}
    for method in methods.registered():
        made = method.made() if method.stages else None
        for part in ("threshold", "perturber", "estimator") if made else ():
            stage = getattr(made, part)
            if type(stage) in method.stages:
                found.setdefault(type(stage), stage)
    return list(found.values())


def perturbers(fixed: bool) -> dict[str, Any]:
    """Perturbers with one option for every block, or with several."""
    found = stages("perturb").items()
    return {name: stage for name, stage in found if (stage.noise_law(1) is not None) == fixed}


def smoothers() -> dict[str, Any]:
    """Estimators that follow blocks of fixed size."""
    return {name: stage for name, stage in stages("estimate").items() if stage.adds_up}


@cache
def pipelines() -> dict[str, tg.Pipeline]:
    """Each stage in a pipeline whose other two are ordinary, and the options of the pipeline."""
    fixed = tg.threshold.Fixed(12)
    tree = tg.perturb.Hierarchy(epsilon="1/2", horizon=60, fanout=4, skipped=1)
    found = {
        name: tg.Pipeline(threshold=stage, perturber=tree)
        for name, stage in stages("threshold").items()
    }
    for name, stage in perturbers(fixed=True).items():
        found[name] = tg.Pipeline(threshold=fixed, perturber=stage, estimator=tg.estimate.Mean())
    for name, stage in perturbers(fixed=False).items():
        found[name] = tg.Pipeline(threshold=fixed, perturber=stage, estimator=tg.estimate.Mixture())
    for name, stage in stages("estimate").items():
        ordinary = tree if stage.adds_up else make("perturb.AdaptiveTrees")
        found[name] = tg.Pipeline(threshold=fixed, perturber=ordinary, estimator=stage)
    for name, stage in followed().items():
        found[f"estimate.Mixture()+{name}"] = tg.Pipeline(
            threshold=fixed, perturber=stage, estimator=tg.estimate.Mixture()
        )
    found["threshold.ScaleFree+tops"] = tg.Pipeline(
        threshold=make("threshold.ScaleFree"), perturber=tree, estimator=tg.estimate.Recent()
    )
    found["non_negative"] = tg.Pipeline(threshold=fixed, perturber=tree, non_negative=True)
    found["non_negative,block=1"] = tg.Pipeline(
        threshold=fixed, perturber=make("perturb.Hierarchy", skipped=0), non_negative=True
    )
    found["resolution=1/100"] = tg.Pipeline(
        threshold=fixed, perturber=tree, resolution="1/100", estimator=tg.estimate.Median()
    )
    found["resolution=3"] = tg.Pipeline(threshold=fixed, perturber=tree, resolution=3)
    found["history=20"] = tg.Pipeline(threshold=fixed, perturber=tree, history=20)
    for method in methods.registered():
        if method.model == "central":
            found[method.preset.__name__] = method.made()
    small = {"epsilon": "1/2", "bound": 40, "holdout": 37}
    found["pegasus,medians"] = tg.pegasus(
        20, 40, holdout=37, horizon=60, resolution=1, medians=True
    )
    found["adaptive,non_negative,resolution=1/10"] = tg.adaptive(
        **small, horizon=500, non_negative=True, resolution="1/10"
    )
    several = {"epsilon": "8", "bound": 40, "horizon": 500}
    found["adaptive,refined"] = tg.adaptive(**several)
    found["adaptive,refined,non_negative,resolution=1/10"] = tg.adaptive(
        **several, non_negative=True, resolution="1/10"
    )
    found["adaptive,refined,looks"] = tg.adaptive(epsilon=160, bound=4000, horizon=100)
    window = {"unit": tg.units.Window(length=2)}  # what corrects running sums is spread
    found["adaptive,window"] = tg.adaptive(**small, horizon=500, **window)
    found["adaptive,refined,window"] = tg.adaptive(**several, **window)
    found["unit=Window"] = tg.Pipeline(
        threshold=fixed, perturber=tree, unit=tg.units.Window(length=3)
    )
    again = make("threshold.NoisyMax", holdout=18)
    found["reselect"] = tg.Pipeline(
        threshold=tg.threshold.Fixed(40),
        perturber=tree,
        estimator=tg.estimate.Median(),
        reselect=tg.Reselection(threshold=again, first=30, every=70),
    )
    found["reselect,adaptive"] = tg.Pipeline(
        threshold=make("threshold.ScaleFree"),
        perturber=make("perturb.AdaptiveTrees"),
        estimator=tg.estimate.Mixture(),
        reselect=tg.Reselection(threshold=again, first=30, every=70),
    )
    found["reselect,adaptive,blocking"] = tg.Pipeline(
        threshold=make("threshold.ScaleFree"),
        perturber=make("perturb.AdaptiveTrees"),
        estimator=tg.estimate.Mixture(truncated="1/200"),
        reselect=tg.Reselection(threshold=again, every=70, blocking=True),
        non_negative=True,
    )
    found["reselect,blocking"] = tg.Pipeline(
        threshold=make("threshold.NoisyMax"),
        perturber=tree,
        reselect=tg.Reselection(threshold=again, every=50, blocking=True),
    )
    found["reselect,block=1,non_negative"] = tg.Pipeline(
        threshold=make("threshold.NoisyMax"),
        perturber=make("perturb.Hierarchy", skipped=0),
        reselect=tg.Reselection(threshold=again, every=18),  # windows without a gap between them
        non_negative=True,
    )
    # Values below 0: a rule of every kind, blocks of one and of many values, sampling, no hold-out.
    low = {"lower": -25, "resolution": 1}
    published = ("binary_tree", "fast", "pak", "pegasus", "sparse_partition", "square_root")
    for method in ("tops", "adaptive", "pegasus,medians", *published):
        one = found[method]
        found[f"{method},lower=-25"] = replace(one, **low)
    found["adaptive,refined,lower=-25"] = replace(found["adaptive,refined"], **low)
    for name in ("reselect", "reselect,blocking", "threshold.ScaleFree+tops"):
        found[f"{name},lower=-5/2"] = replace(found[name], lower="-5/2", resolution="1/2")
    return found


def names_of_law(law: int) -> list[str]:
    """The pipelines of a law: by hand half of the methods, and a quarter of all (tests/depth.py).

    The next law has the others. The usual methods are everywhere.
    """
    published = [one.preset.__name__ for one in methods.registered() if one.model == "central"]
    always = [*in_turn(published, law, ["tops", "adaptive"]), "adaptive,refined"]
    return in_turn(pipelines(), law, always, of=4)


def followed() -> dict[str, Any]:
    """Fixed perturbers of every geometry, whose trees a forecaster follows."""
    names = (
        "perturb.Flat(block=5)",
        "perturb.Flat(block=7,horizon=5)",
        "perturb.Hierarchy(skipped=2,fanout=3)",
        "perturb.Hierarchy(skipped=1,fanout=2,shares=[3,1,'1/2'])",
    )
    return {name: stages("perturb")[name] for name in names}


def plain_pipelines() -> dict[str, tg.Pipeline]:
    """Those with one threshold for ever."""
    return {name: one for name, one in pipelines().items() if one.reselect is None}


def courses(release: tg.Release) -> list[Segment]:
    """The records of a guided release, phase by phase, without blocked stretches."""
    return [segment for segment in release.record.segments if segment.measured]


def length(pipeline: tg.Pipeline) -> int:
    """Enough for the hold-out and two and a half horizons (of longer ones, one and a half)."""
    horizon = pipeline.perturber.horizon
    if horizon < 400:
        return pipeline.holdout + 5 * horizon // 2 + 40
    return pipeline.holdout + horizon + min(horizon // 2 + 40, 300)


def stream(count: int, seed: int = 0, top: int = 60) -> np.ndarray:
    """Whole numbers, skewed, some above every bound, with a stretch of zeros."""
    random = np.random.default_rng(seed)
    values = np.minimum(random.geometric(0.09, size=count), top)
    values[count // 3 : count // 3 + 20] = 0
    return values


def inputs(pipeline: tg.Pipeline, seed: int = 0) -> np.ndarray:
    """As many as the pipeline needs; below 0, too, where they count."""
    values = stream(length(pipeline), seed)
    if pipeline.lower:
        values[np.random.default_rng(seed).random(values.size) < 0.4] *= -1
    return values


def bits(numbers: Any) -> bytes:
    """What bit equality means: NaN, −0.0 and the last place count."""
    return np.asarray(numbers, dtype=np.float64).tobytes()


def answers(record: tg.Record, count: int = 60) -> list[bytes]:
    """Every column of the answers to ranges all over what the record knows."""
    first, last = record.start, record.end
    ends = np.random.default_rng(5).integers(first, last + 1, size=(2, count))
    found = record.queries(ends.min(axis=0), ends.max(axis=0), confidence=0.9)
    columns = (found.estimate, found.noise_error, found.prediction_error, found.low, found.high)
    return [bits(column) for column in columns]


def known(release: tg.Release) -> tuple[Any, ...]:
    """The public state of a release, with the bytes of its record.

    A guided release takes half a second to answer. Equal records give equal answers, which is a law
    of its own (`test_a_stored_record_answers_like_the_release`); so it need not be asked each time.
    """
    return (
        release.position,
        release.holding,
        release.threshold,
        release.epoch,
        release.guarantee,
        release.seen,
        release.phases,
        b"" if release.threshold is None else release.save_record(),
    )


def facts(release: tg.Release) -> tuple[Any, ...]:
    """The public state of a release, and what it answers."""
    return (*known(release), [] if release.threshold is None else answers(release.record))


def pushed_with_stops(
    pipeline: tg.Pipeline, values: np.ndarray, seed: int, most: int
) -> tuple[tg.Release, np.ndarray]:
    """A release and what it published, pushed in parts; it is resumed after one in five."""
    random = np.random.default_rng(seed)
    run, found, at = pipeline.start(tg.seeded(5)), [], 0
    while at < values.size:
        count = int(random.integers(1, most))
        found.append(run.push(values[at : at + count]))
        at += count
        if random.random() < 0.2:
            run = pipeline.resume(run.snapshot(brief=bool(random.integers(2))))
    return run, np.concatenate(found)


def alike_when_split(pipeline: tg.Pipeline, values: np.ndarray, seed: int) -> tg.Release:
    """The release of all values at once; pushed in parts, with stops, it is the same."""
    whole = pipeline.start(tg.seeded(5))
    out = whole.push(values)
    run, found = pushed_with_stops(pipeline, values, seed, (9, 200)[seed % 2])
    assert bits(found) == bits(out)
    assert run.phases == whole.phases
    return whole
