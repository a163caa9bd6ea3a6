"""What a ledger was charged is the derived guarantee, whatever was done in between.

Random runs of every kind of durable release: opened, pushed to, closed, begun anew, released in
parts. The row that has spent most has spent the guarantee once for each epoch that took a row (of
events, for each epoch that was begun).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import tidegate as tg
from tidegate.durable import DurableRelease
from tidegate.durable.durable_columns import DurableColumns
from tidegate.keyed.durable_folder import DurableKeyed
from tidegate.ledger import CapExceeded, Ledger, composition

EPSILONS = ("0.1", "1/3", "0.7", "2", "1.25")
TICKS: dict[str, Any] = {"every": "1h", "start": "2024-01-01T00:00Z"}
Opening = Callable[..., Any]


def opening(kind: str, chance: random.Random) -> tuple[Opening, Any]:
    """How a folder is opened, and the guarantee of all that is in it."""
    epsilon, horizon = chance.choice(EPSILONS), chance.choice([64, 100])
    if kind in ("events", "keyed events"):
        pipeline = tg.events(epsilon, chance.choice([None, 20]), horizon=horizon, **TICKS)
    elif chance.random() < 0.5:
        pipeline = tg.adaptive(epsilon=epsilon, bound=9, horizon=horizon)
    else:
        every = chance.choice([None, 16, 40])
        named: dict[str, Any] = {} if every is None else {"rethreshold_every": every}
        pipeline = tg.tops(epsilon=epsilon, bound=9, horizon=horizon, holdout=4, **named)
    if kind.startswith("keyed"):
        specification = tg.keyed(pipeline, keys=["a", "b"])
        return lambda folder, **how: DurableKeyed.open(folder, specification, **how), (
            specification.guarantee
        )
    if kind == "columns":
        other = tg.adaptive(epsilon=chance.choice(EPSILONS), bound=5, horizon=horizon)
        first = tg.adaptive(epsilon=epsilon, bound=9, horizon=horizon)
        pipelines = {"fare": first, "tip": other}
        return lambda folder, **how: DurableColumns.open(folder, pipelines, **how), (
            tg.sequential(first.guarantee, other.guarantee)
        )
    return lambda folder, **how: DurableRelease.open(folder, pipeline, **how), pipeline.guarantee


def push(run: Any, kind: str, count: int, chance: random.Random) -> None:
    values = [float(chance.randrange(12)) for _ in range(count)]
    if kind in ("events", "keyed events"):
        hours = [
            f"2024-01-0{1 + chance.randrange(4)}T{chance.randrange(24):02}:30Z" for _ in values
        ]
        times, keys = tg.read_times(hours, by_order=False), [chance.choice("abx") for _ in values]
        rows = (keys, values, times) if kind == "keyed events" else (values, None, times)
        run.push_rows(*rows)
        if chance.random() < 0.5:
            end = 1 + chance.randrange(90)
            if kind == "keyed events":
                run.close_ticks(max(end, run.release.counts().max()))
            else:
                run.advance(f"2024-01-0{1 + end // 24}T{end % 24:02}:00Z")
    elif kind == "keyed":
        run.push_rows([chance.choice("abx") for _ in values], values)
    elif kind == "columns":
        for column in run.runs.values():
            column.push(values)
    else:
        run.push(values)


@pytest.mark.parametrize("kind", ["readings", "events", "keyed", "keyed events", "columns"])
@pytest.mark.parametrize("seed", range(6))
def test_the_ledger_is_the_guarantee_times_the_epochs(kind: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"{kind} {seed}")
    begin, guarantee = opening(kind, chance)
    folder = tmp_path / "state"
    charged = 0  # epochs that must pay
    taken, before = True, -1
    for step in range(8):
        anew = step > 0 and chance.random() < 0.3
        with begin(folder, source="all", new_epoch=anew) as run:
            if anew or step == 0:
                taken, before = False, charged
            if "events" in kind or kind == "keyed":  # whether rows came at all is protected
                taken = True
            # Columns that were begun anew and took nothing ask for a new epoch once more.
            if chance.random() < 0.8 or kind == "columns":
                push(run, kind, chance.choice([1, 7, 150]), chance)
                taken = True
        charged = before + taken
        with Ledger.open(folder / "ledger.jsonl") as ledger:
            spent = composition.spent(ledger.charges("all")) if charged else Fraction(0)
            assert spent == charged * guarantee.epsilon
    assert charged


@pytest.mark.parametrize("kind", ["readings", "events", "keyed", "keyed events", "columns"])
def test_a_cap_holds(kind: str, tmp_path: Path) -> None:
    chance = random.Random(kind)
    begin, guarantee = opening(kind, chance)
    cap = 2 * guarantee.epsilon + guarantee.epsilon / 2
    refused = 0
    for step in range(5):
        try:
            with begin(tmp_path / "state", source="all", cap=cap, new_epoch=step > 0) as run:
                push(run, kind, 150, chance)
        except CapExceeded:
            refused += 1
        with Ledger.open(tmp_path / "state" / "ledger.jsonl") as ledger:
            assert composition.spent(ledger.charges("all")) <= cap
    assert refused == 3
