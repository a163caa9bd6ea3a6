"""Law 5: what comes after the barrier is a function of `Noisy` alone."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any, get_type_hints

import numpy as np
import pytest

import tidegate as tg
from tests.laws.catalogue import (
    bits,
    courses,
    exported,
    inputs,
    names_of_law,
    perturbers,
    pipelines,
    smoothers,
    stages,
    stream,
)
from tidegate.estimate.smoother import Smoother
from tidegate.settings import Spec
from tidegate.stages import Noisy


class Spy(Smoother, Spec):
    """A smoother that writes down all it is shown."""

    KIND = "tests.Spy"

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.seen: list[np.ndarray] = []
        self.started: dict[str, Any] = {}

    def settings(self) -> dict[str, Any]:
        return self.inner.settings()

    def predictor(self, **facts: Any) -> SpyRun:
        self.started = facts
        return SpyRun(self, self.inner.predictor(**facts))


class SpyRun:
    STATE = ()

    def __init__(self, spy: Spy, inner: Any) -> None:
        self._spy, self._inner = spy, inner
        self.first = inner.first

    def push(self, noisy: Noisy) -> np.ndarray:
        assert type(noisy) is Noisy
        assert noisy.sums.dtype == np.int64
        self._spy.seen.append(noisy.sums.copy())
        return self._inner.push(noisy)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize("name", smoothers())
def test_the_output_can_be_computed_from_what_the_smoother_saw(name: str) -> None:
    """Nothing but noisy sums and public numbers goes in; rebuild the whole output from these."""
    pipeline = pipelines()[name]
    spy = Spy(pipeline.estimator)
    watched = tg.Pipeline(threshold=pipeline.threshold, perturber=pipeline.perturber, estimator=spy)
    values = inputs(pipeline)
    out = watched.start(tg.seeded(3)).push(values)
    assert bits(out) == bits(pipeline.start(tg.seeded(3)).push(values))
    assert spy.started == {"threshold": 12, "block": 4, "blocks": 15}

    noisy = np.concatenate(spy.seen)
    run = pipeline.estimator.predictor(threshold=12, block=4, blocks=15)
    predictions = [run.first, *run.push(Noisy(noisy))]
    rebuilt = []
    for index in range(out.size):
        block, offset = divmod(index, 4)
        last = offset == 3
        rebuilt.append(noisy[block] - 3 * predictions[block] if last else predictions[block])
    np.testing.assert_allclose(out, rebuilt, rtol=1e-12, atol=1e-9)


IRREGULAR = [name for name, one in pipelines().items() if one.perturber.irregular]
# The refined release has its own: tests/adaptive/test_refined_release.py.
GUIDED = [
    name
    for name, one in pipelines().items()
    if not one.estimator.adds_up and name not in IRREGULAR and not one.warm_up
]


@pytest.mark.parametrize("name", IRREGULAR)
def test_what_is_published_between_measurements_can_be_computed_from_them(name: str) -> None:
    """The whole output again, from the released numbers, spans and marks alone."""
    pipeline = replace(pipelines()[name], history=10**6)
    release = pipeline.start(tg.seeded(3))
    out = release.push(inputs(pipeline))
    for course in courses(release):
        known = course.leaves.spans()
        # Measured or not, a new group or not, or several values a span; `zeros` measures nothing.
        varied = len(set(known.marks.tolist())) > 1 or np.diff(known.edges).max() > 1
        assert varied or not pipeline.perturber.epsilon
        run = pipeline.estimator.start(
            threshold=course.threshold, perturber=pipeline.perturber, below=course.below
        )
        rebuilt = np.zeros(course.end - course.origin)
        at = 0
        for number, span, mark in zip(
            known.numbers, np.diff(known.edges), known.marks, strict=True
        ):
            noisy = Noisy(*(np.array([item]) for item in (number, span, mark)))
            run.push(noisy, rebuilt[at : at + span])
            at += span
        nothing = np.empty(0, dtype=np.int64)
        run.push(Noisy(nothing, nothing, nothing), rebuilt[at:])
        if not pipeline.non_negative:
            published = out[course.origin : course.end]
            assert bits(rebuilt * pipeline.lattice.step) == bits(published)


@pytest.mark.parametrize("name", GUIDED)
def test_what_a_forecaster_did_can_be_computed_from_what_was_released(name: str) -> None:
    """Trees and output again, from the released sums and public numbers alone."""
    pipeline = replace(pipelines()[name], history=10**6)
    release = pipeline.start(tg.seeded(3))
    out = release.push(inputs(pipeline))
    stage, forecaster = pipeline.perturber, pipeline.estimator
    for course in courses(release):
        run = forecaster.start(threshold=course.threshold, perturber=stage, below=course.below)
        sums, rebuilt, chunk, number = iter(course.released.tolist()), [], 0, 0
        for tree in course.layouts:
            options = stage.layouts(
                stage.lengths(chunk)[number], course.threshold, pipeline.ceiling + course.below
            )
            choice = run.choose(options, first=number == 0)
            assert options[choice] == tree
            run.begin(tree)
            done = leaf = 0
            while done < tree.length and course.origin + len(rebuilt) < course.end:
                done += 1
                closes = leaf < tree.leaves_by(done)
                leaf += closes
                rebuilt.append(run.push_one(next(sums) if closes else None))
            number += 1
            if number == len(stage.lengths(chunk)):
                chunk, number = chunk + 1, 0
        if not pipeline.non_negative:  # debts are carried from phase to phase
            published = out[course.origin : course.end]
            assert bits(np.array(rebuilt) * pipeline.lattice.step) == bits(published)


@pytest.mark.parametrize("name", names_of_law(2))
def test_what_was_answered_then_is_the_answer_as_of_then(name: str) -> None:
    """Later releases say more about the past, but do not change what could be said before."""
    pipeline = pipelines()[name]
    moments = 7
    if not pipeline.estimator.adds_up:  # there, what was forgotten would have said something too
        pipeline = replace(pipeline, history=10**6)
        moments = 3  # and answers take their time
    values = inputs(pipeline)
    release = pipeline.start(tg.seeded(3))
    then = {}
    for number, part in enumerate(np.array_split(values, moments)):
        release.push(part)
        if release.position and number < moments - 1:  # the last has no later release to withstand
            starts = np.linspace(release.record.start, release.position, 5).astype(np.int64)
            ends = np.minimum(starts + 23, release.position)
            found = release.queries(starts, ends)
            then[release.position] = starts, ends, found
    for position, (starts, ends, before) in then.items():
        known = starts >= release.record.start  # the record may have forgotten some
        now = release.queries(starts[known], ends[known], as_of=position)
        for column in ("estimate", "noise_error", "prediction_error", "low", "high"):
            assert bits(getattr(now, column)) == bits(getattr(before, column)[known])


@pytest.mark.parametrize("name", smoothers())
def test_equal_noisy_sums_give_equal_predictions(name: str) -> None:
    stage = smoothers()[name]
    sums = np.random.default_rng(1).integers(-500, 500, size=200)
    whole = stage.predictor(threshold=9, block=6, blocks=30).push(Noisy(sums))
    run = stage.predictor(threshold=9, block=6, blocks=30)
    parts = [run.push(Noisy(part.copy())) for part in np.split(sums, [0, 1, 17, 17, 90])]
    assert whole.dtype == np.float64
    assert whole.shape == (200,)
    assert bits(np.concatenate(parts)) == bits(whole)


@pytest.mark.parametrize("name", smoothers())
def test_predictions_are_causal(name: str) -> None:
    """The prediction for a block does not move when that block or a later one does."""
    stage = smoothers()[name]
    sums = np.random.default_rng(1).integers(-500, 500, size=80)
    other = sums.copy()
    other[40:] += 1000
    one = stage.predictor(threshold=9, block=6, blocks=30).push(Noisy(sums))
    two = stage.predictor(threshold=9, block=6, blocks=30).push(Noisy(other))
    assert bits(one[:40]) == bits(two[:40])


@pytest.mark.parametrize("name", smoothers())
def test_smoothers_do_not_change_what_they_are_shown(name: str) -> None:
    stage = smoothers()[name]
    sums = np.arange(50)
    sums.flags.writeable = False
    stage.predictor(threshold=9, block=6, blocks=7).push(Noisy(sums))


@pytest.mark.parametrize("name", sorted({name.partition("(")[0] for name in smoothers()}))
def test_types_say_that_smoothers_take_noisy_sums_only(name: str) -> None:
    stage = exported()[name]
    assert set(inspect.signature(stage.predictor).parameters) == {
        "self", "threshold", "block", "blocks"
    }  # fmt: skip
    run = type(smoothers()[f"{name}()"].predictor(threshold=9, block=6, blocks=7))
    hints = get_type_hints(run.push)
    assert hints.pop("return") is not None
    assert list(hints.values()) == [Noisy]


@pytest.mark.parametrize(
    "name", sorted({name.partition("(")[0] for name in perturbers(fixed=True)})
)
def test_types_say_that_perturbers_make_noisy_sums(name: str) -> None:
    keystream = tg.seeded(1).new_epoch().keystream("perturb", b"")
    run = stages("perturb")[f"{name}()"].start(9, 9, keystream)
    assert get_type_hints(type(run).push)["return"] is Noisy


def test_queries_are_answered_from_released_sums_alone() -> None:
    """Two releases whose raw values differ but whose noisy sums do not answer alike."""
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(12),
        perturber=tg.perturb.Hierarchy(epsilon="1/2", horizon=60, fanout=4, skipped=1),
    )
    values = stream(170, top=12)
    turned = values[:168].reshape(-1, 4)[:, ::-1].reshape(-1)  # the same block sums
    turned = np.concatenate((turned, values[168:]))
    assert not np.array_equal(values, turned)
    releases = [pipeline.start(tg.seeded(3)) for _ in range(2)]
    outs = [release.push(part) for release, part in zip(releases, (values, turned), strict=True)]
    assert bits(outs[0]) == bits(outs[1])
    starts = np.arange(0, 100)
    ends = starts + 70
    one, two = (release.queries(starts, ends) for release in releases)
    for column in ("estimate", "noise_error", "prediction_error", "low", "high"):
        assert bits(getattr(one, column)) == bits(getattr(two, column))
