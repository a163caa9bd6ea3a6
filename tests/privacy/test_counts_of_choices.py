"""What choices of θ, and numbers of events, count: every value of their rows or ticks, once.

`test_event_privacy` and `test_refined_privacy` add up what values pay by where a look or a window
says that it lies. Here what is counted is compared with the stream itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.adaptive.test_refined_release import HORIZON, growing
from tests.privacy.test_event_privacy import CLOCK, at_ticks
from tidegate.perturb.adaptive import event_trees
from tidegate.threshold import TailQuantile

TICKS = 900


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize(("epsilon", "several"), [("8", False), ("1/2", True)])
def test_looks_and_windows_count_every_event_of_their_ticks_once(
    monkeypatch: pytest.MonkeyPatch, epsilon: str, several: bool, pieces: int
) -> None:
    pipeline = tg.events(epsilon=epsilon, bound=10_000, horizon=3000, **CLOCK)
    release = pipeline.start(tg.seeded(5))
    looks: list[tuple[int, int]] = []
    choices: list[tuple[int, int, TailQuantile, Any]] = []
    choose, total = TailQuantile.choose_from, event_trees.noisy_event_total

    def choose_from(stage: TailQuantile, above: Any, *given: Any, **public: Any) -> Any:
        run = release._events
        start = run.window_start if run._window else 0
        choices.append((start, release.position, stage, above.copy()))
        return choose(stage, above, *given, **public)

    def noisy_total(amount: int, *given: Any) -> int:
        looks.append((release.position, amount))
        return total(amount, *given)

    monkeypatch.setattr(TailQuantile, "choose_from", choose_from)
    monkeypatch.setattr("tidegate.run.event_run.noisy_event_total", noisy_total)
    random = np.random.default_rng(1)
    places = np.sort(random.integers(0, TICKS, 4 * TICKS))
    values = random.exponential(100, places.size).round()
    for end in np.linspace(0, TICKS, pieces + 1).astype(int)[1:].tolist():
        here = (places >= release.position) & (places < end)
        release.push(at_ticks(places[here]), values[here])
        release.close_ticks(end - release.position)
    *numbers, (warm_up, _) = looks  # the last is the sum
    assert (len(numbers) > 1) == several
    begin = 0
    for end, counted in numbers:  # other ticks in each look, and none left out
        assert counted == np.count_nonzero((places >= begin) & (places < end))
        begin = end
    assert begin == warm_up
    assert len(choices) > 1
    units = pipeline.lattice.units(values)
    for start, end, stage, above in choices:
        inside = units[(places >= start) & (places < end)]
        assert above.tolist() == stage.above(inside, pipeline.lattice.scale).tolist()
    edges = [place for start, end, *_ in choices for place in (start, end)]
    assert edges == sorted(edges)  # no tick chooses twice


@pytest.mark.parametrize("lower", [0, -5000])
@pytest.mark.parametrize("pieces", [1, 7, None])
def test_warm_ups_and_windows_count_every_value_once(
    monkeypatch: pytest.MonkeyPatch, pieces: int | None, lower: int
) -> None:
    """In one push, in several, and value by value."""
    pipeline = tg.adaptive(epsilon=8, bound=10_000, lower=lower, horizon=HORIZON)
    values = growing()
    release, grid = pipeline.start(tg.seeded(5)), pipeline.lattice.scale
    sizes = np.abs(pipeline.lattice.units(values))
    choose, ends = TailQuantile.choose_from, []

    def choose_from(stage: TailQuantile, above: Any, *given: Any, **public: Any) -> Any:
        rows = slice(release.position - stage.holdout, release.position)
        assert above.tolist() == stage.above(sizes[rows], grid).tolist()
        ends.append((rows.start, rows.stop))
        return choose(stage, above, *given, **public)

    monkeypatch.setattr(TailQuantile, "choose_from", choose_from)
    if pieces is None:
        for value in values.tolist():
            release.push(value)
    else:
        for part in np.array_split(values, pieces):
            release.push(part)
    assert len(ends) > 2
    edges = [place for rows in ends for place in rows]
    assert edges == sorted(edges)  # no value chooses twice
