"""An exception at every place of a push: the release is as before, or it refuses to go on.

One that went on half-way would count an event twice when the push is tried again, or publish the
same noise on two data.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.depth import depth
from tests.interruptions import all_interruptions, interrupted
from tidegate.errors import TidegateError
from tidegate.sealing import unseal

# Where the marks are set, and whatever is changed on the way: at the gate by every instruction;
# elsewhere by lines.
CLOSELY: tuple[str, ...] = ("run/release.py", "ownership.py", "units.py", "run/hold_out.py")
# Functions of settings, values and the keystream: they change nothing but caches of their own.
PURE = (
    *(
        "settings.py",
        "exact_numbers.py",
        "guarantee.py",
        "randomness.py",
        "lattice.py",
        "run/threshold_schedule_and_reselection.py",
        "run/two_sided_caps.py",
        "run/pipeline.py",
    ),
    *(
        "noise/",
        "threshold/",
        "perturb/level_scales.py",
        "perturb/consistency.py",
        "perturb/forest_geometry.py",
    ),
    *(
        "perturb/hierarchy_and_flat.py",
        "perturb/adaptive/tree_shapes.py",
        "perturb/adaptive/adaptive_trees.py",
        "user_ids.py",
    ),
    *(
        "estimate/mixture/kalman_filter/block_cells.py",
        "estimate/mixture/tree_choice.py",
        "estimate/mixture/kalman_filter/leaf_noise.py",
    ),
)
# The end of a warm-up has thousands of lines of these. They change the filters' numbers, and are
# interrupted line by line in the other adaptive cases.
FILTERS = tuple(
    f"estimate/mixture/{name}.py"
    for name in (
        "kalman_filter/kalman_filters",
        "kalman_filter/state_space_models",
        "portable_exp_and_log",
    )
)
HOME = Path(tg.__file__).parent
USER = tg.units.UserHorizon(most=1)
SAVED = "run/release_snapshots_and_forks.py"


def fixed(**settings: Any) -> tg.Pipeline:
    base = {"epsilon": 1, "bound": 9, "holdout": 2, "horizon": 4, "fanout": 2, "skipped": 1}
    return tg.tops(**{**base, **settings})


def adaptive(**settings: Any) -> tg.Pipeline:
    return tg.adaptive(**{"epsilon": 1, "bound": 9, "holdout": 2, "horizon": 64, **settings})


SHARED = {"rethreshold_every": 4, "rethreshold_share": 0.5}
# Pipeline, values before, the push: so short that every event of it can be interrupted.
CASES: dict[str, tuple[tg.Pipeline, list[int], Any]] = {
    "one in the hold-out": (fixed(), [1], 7),
    "one that ends the hold-out": (fixed(holdout=1), [], 7),
    "one within a block": (fixed(), [1, 2], 7),
    "one that ends a block": (fixed(), [1, 2, 3], 7),
    "one without truth below 0": (fixed(non_negative=True), [1, 2, 3], 0),
    "one of a user": (fixed(unit=USER), [1, 2], 7),
    "one, adaptive": (adaptive(), [1, 2, 3], 7),
    "one in the warm-up": (adaptive(holdout=None), [1], 7),
    "one that ends the warm-up": (adaptive(holdout=None, horizon=16), [1] * 7, 7),
    "one that ends the warm-up, both ends": (
        adaptive(holdout=None, horizon=16, lower=-5),
        [1, -2] * 3 + [1],
        -7,
    ),
    "hold-out and stream, both ends": (fixed(lower=-5), [1], [2, -3, 4]),
    "one after the warm-up": (adaptive(holdout=None, horizon=16), [1] * 9, 7),
    "one that opens a window": (fixed(**SHARED), [1, 2, 3], 7),
    "an array of one": (fixed(), [1, 2], [7]),
    "hold-out and stream": (fixed(), [1], [2, 3, 4]),
    "not below 0": (fixed(non_negative=True), [1, 2], [0, 0]),
    "users over two horizons": (fixed(unit=USER), [1, 2, 3, 4, 5], [6, 7]),
    "a new threshold": (fixed(**SHARED), [1, 2, 3, 4, 5], [6, 7]),
    "a new threshold, blocking": (fixed(rethreshold_every=4), [1, 2, 3, 4, 5], [6, 7]),
    "adaptive over a block": (adaptive(), [1, 2], [3, 4, 5]),
}


def users_of(pipeline: tg.Pipeline, values: Any, first: int = 0) -> Any:
    if pipeline.unit != USER:
        return None
    if not isinstance(values, list):
        return "u0"
    return [f"u{(first + index) % 2}" for index in range(len(values))]


def refuses(action: Callable[[], Any]) -> bool:
    with pytest.raises(TidegateError, match="cut short"):
        action()
    return True


def contents(release: tg.Release) -> str:
    """All state, the noise key and raw sums among it."""
    return repr(unseal(release.snapshot(), None))


@pytest.mark.parametrize("case", CASES)
def test_a_push_is_taken_whole_or_the_release_refuses(case: str) -> None:
    pipeline, before, values = CASES[case]
    pure = (*PURE, *FILTERS, "stages/layout.py") if "the warm-up" in case else PURE
    users = users_of(pipeline, values, len(before))
    release = pipeline.start(tg.seeded(1))
    if before:
        release.push(before, users_of(pipeline, before))
    state = release.snapshot()
    release = pipeline.resume(state)
    expected = (np.array(release.push(values, users), dtype=float).tobytes(), contents(release))

    refused = untouched = 0
    for at, subject in all_interruptions(
        lambda: pipeline.resume(state),
        lambda release: release.push(values, users),
        bytecodes=depth((), CLOSELY),
        pure=pure,
    ):
        try:
            out = subject.push(values, users)
        except TidegateError:
            refused += 1
            if refused % 50 == 1:  # all entries ask the same mark
                assert refuses(lambda release=subject: release.push(values, users))  # type: ignore[misc]
                assert refuses(subject.snapshot)
                assert refuses(subject.fork)
                assert refuses(subject.journal_entries)
                assert refuses(lambda release=subject: release.query(0, 0))  # type: ignore[misc]
        else:  # the retry was the first that counted
            assert (np.array(out, dtype=float).tobytes(), contents(subject)) == expected, at
            untouched += 1
    assert untouched > depth(2, 10)
    assert refused > depth(4, 50)


def test_an_interrupted_fork_may_cost_too_much_but_never_too_little() -> None:
    release = fixed().start()
    release.push([1, 2, 3])
    branches: list[tg.Release] = []
    costs = []
    while True:
        before = release.guarantee.epsilon
        fork = lambda: branches.append(release.fork())  # noqa: E731  # short, and used once
        if not interrupted(fork, len(costs), bytecodes=depth((), (SAVED,)), pure=PURE):
            break
        costs.append(release.guarantee.epsilon - before)
    assert release.guarantee.epsilon == before + 1
    assert branches[-1].guarantee == release.guarantee
    # Once charged it stays charged: from some event on every interruption costs.
    assert costs == sorted(costs)
    assert set(costs) == {0, 1}
    assert len(branches) <= sum(costs) + 1
    release.push(4)


def test_interrupted_readers_change_nothing() -> None:
    fixed_release, guided = fixed(unit=USER).start(tg.seeded(1)), adaptive().start(tg.seeded(1))
    fixed_release.push([1, 2, 3], ["a", "b", "a"])
    guided.push(range(40))
    readers: tuple[tuple[tg.Release, Callable[[tg.Release], Any]], ...] = (
        (fixed_release, lambda release: unseal(release.snapshot(), None)),
        (fixed_release, lambda release: release.query(0, 1)),
        (guided, lambda release: release.query(0, 9)),  # keeps its last look back
        (guided, lambda release: unseal(release.save_record(), None)),
    )
    for release, reader in readers:
        state, expected, events = contents(release), repr(reader(release)), 0
        pure = (*PURE, "estimate/", "sealing.py", "state_as_bytes.py")
        while interrupted(partial(reader, release), events, pure=pure):
            events += 1
            if events % 10 == 0:
                assert repr(reader(release)) == expected
        assert events > 10
        assert contents(release) == state


def counted(release: tg.Release) -> tg.Release:
    release.push([1, 8, 3, 9, 2, 7])
    return release


def logged(release: tg.Release) -> tg.Release:
    release.push(["2024-01-02", "2024-01-01", "2024-01-02"])
    return release


@pytest.mark.parametrize(
    ("pipeline", "before", "pushed"),
    [
        (tg.adaptive(epsilon=8, bound=9, horizon=1000), [1, 8] * 30, counted),
        (tg.events(epsilon=1, every="1d", start="2024-01-01", horizon=50), [], logged),
    ],
    ids=["window", "events"],
)
def test_snapshots_that_are_interrupted_count_no_value_twice(
    pipeline: tg.Pipeline, before: list[int], pushed: Callable[[tg.Release], tg.Release]
) -> None:
    """What waits is counted for a snapshot: a value that waits on would move a choice by 2."""
    first = pipeline.start(tg.seeded(1))
    if before:
        first.push(before)
        assert first._run._blocks.window is not None  # type: ignore[union-attr]
    state = first.snapshot()
    expected = pushed(pipeline.resume(state)).snapshot()
    followed = ("run/selection_counts.py", "run/event_log.py")
    modules = (str(path.relative_to(HOME)) for path in HOME.rglob("*.py"))
    pure = tuple(one for one in modules if one not in followed)
    events = 0
    for at, release in all_interruptions(
        lambda: pushed(pipeline.resume(state)),
        tg.Release.snapshot,
        bytecodes=followed[1:],
        pure=pure,
    ):
        assert release.snapshot() == expected, at
        events += 1
    assert events > depth(3, 10)


def test_pieces_for_a_journal_are_handed_over_or_the_release_refuses() -> None:
    pipeline = fixed()
    first = pipeline.start(tg.seeded(1))
    first.push([1, 2])
    state = first.snapshot()

    def make() -> tg.Release:
        release = pipeline.resume(state)
        release.journal_entries()
        release.push([3, 4, 5])
        return release

    expected = repr(make().journal_entries())
    lost = 0
    for _, release in all_interruptions(
        make,
        lambda release: release.journal_entries(),
        bytecodes=(SAVED, "ownership.py"),
    ):
        try:
            assert repr(release.journal_entries()) == expected
        except TidegateError:
            lost += 1
    assert lost > 3
