"""Close cells are judged by runs that did not pick the rival."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rich.console import Console

from experiments import confirmation
from experiments.compare import Entry
from experiments.ranking import advice, judged
from experiments.rivals import Cell, Course

COURSE = Course("made up", np.zeros(3), 10, fresh=True)


def entry(name: str, long: list[float], short: float = 1.0) -> Entry:
    return Entry("event", name, long, [{"short mse": short} for _ in long], 5.0, "ε")


def test_a_ratio_with_what_chance_can_do() -> None:
    random = np.random.default_rng(1)
    ours, rival = random.lognormal(0, 1, 400).tolist(), random.lognormal(-0.5, 1, 400).tolist()
    worse = [1000.0] * 400  # the other form: the better one counts
    entries = [entry("adaptive", ours), entry("b", rival), entry("adaptive, all rows", worse)]
    own = ("adaptive", "adaptive, all rows")
    ratio, low, high = judged(entries, own, "b", short=False)
    assert low < np.exp(-0.5) < high < 0.85
    assert low < ratio < high
    # A median of n runs is off by √(π/2n) of a normal law's width; two of them, and 95 %.
    assert np.log(high / low) == pytest.approx(2 * 1.96 * np.sqrt(2 * np.pi / 800), rel=0.3)
    assert judged(entries, own, "b", short=True) == (1, 1, 1)


def test_only_close_cells_are_run_again_with_other_seeds_and_all_forms_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    far = Cell(COURSE, 1, [entry("adaptive", [100]), entry("a", [300], 5)])
    close = Cell(COURSE, 0.1, [entry("adaptive", [100]), entry("a", [90], 5), entry("b", [200], 9)])
    asked: list[dict[str, Any]] = []

    def again(promise: str, course: Course, epsilon: float, **settings: Any) -> Cell:
        asked.append({"epsilon": epsilon, **settings})
        return Cell(course, epsilon, [entry("adaptive", [100] * 3), entry("a", [150] * 3)])

    monkeypatch.setattr(confirmation, "cell_of", again)
    found = confirmation.confirmed("event", [far, close], Console(quiet=True), runs=3, seed=11)
    (call,) = asked
    assert call["epsilon"] == 0.1
    assert call["only"] == {"adaptive", "adaptive, all rows", "a"}
    assert call["seed"] != 11
    assert call["everything"]
    *_, row = confirmation.verdicts(found).splitlines()
    assert row == "| made up | 0.1 | long | a | 0.90 | 1.50 (1.50 to 1.50) | ours |"
    assert confirmation.verdicts([]) == "No rival came close anywhere."


def test_a_rival_that_stays_ahead_is_the_one_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    close = Cell(COURSE, 0.1, [entry("adaptive", [100], 8), entry("a", [300], 4)])
    monkeypatch.setattr(confirmation, "cell_of", lambda *_, **__: close)
    found = confirmation.confirmed("event", [close], Console(quiet=True), runs=1)
    *_, row = confirmation.verdicts(found).splitlines()
    assert row == "| made up | 0.1 | short | a | 0.50 | 0.50 (0.50 to 0.50) | the rival |"


def test_advice_says_where_chance_may_have_decided() -> None:
    few = [entry("tops", [1, 90, 90, 500]), entry("adaptive", [1, 100, 120, 500])]
    assert "tops (0.82 of the MSE of adaptive; by chance, perhaps" in advice(few)
    many = [entry("tops", [80.0] * 20), entry("adaptive", [100.0] * 20)]
    assert "tops (0.80 of the MSE of adaptive), " in advice(many)
