"""What has a protected number of rows is charged when its state is made, or when it is opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidegate as tg
from tests.interruptions import Interrupted
from tidegate.durable import DurableRelease, StateError
from tidegate.durable.charging import Charging
from tidegate.durable.durable_columns import DurableColumns
from tidegate.keyed import committed_keyed_release
from tidegate.keyed.durable_folder import DurableKeyed
from tidegate.ledger import CapExceeded, Ledger
from tidegate.sealing import seal
from tidegate.timestamps import read_times

EVENTS = tg.events(epsilon=1, bound=10, horizon=64, every="1h", start="2024-01-01T00:00Z")
READINGS = tg.adaptive(epsilon=1, bound=10, horizon=64)
TIMES = ["2024-01-01T00:10Z"]
Opener = Callable[..., Any]
PUSH: dict[str, tuple[Opener, Callable[[Any], Any]]] = {
    "events": (
        lambda folder, **more: DurableRelease.open(folder, EVENTS, **more),
        lambda state: state.push(TIMES, [1]),
    ),
    "columns of events": (
        lambda folder, **more: DurableColumns.open(folder, {"a": EVENTS, "b": EVENTS}, **more),
        lambda state: [run.push(TIMES, [1]) for run in state.runs.values()],
    ),
    "declared keys": (
        lambda folder, **more: DurableKeyed.open(folder, tg.keyed(READINGS, keys=["a"]), **more),
        lambda state: state.push_rows(["not declared"], [1]),
    ),
    "events by key": (
        lambda folder, **more: DurableKeyed.open(folder, tg.keyed(EVENTS, keys=["a"]), **more),
        lambda state: state.push_rows(["a"], [1], read_times(TIMES, by_order=False)),
    ),
}


def charges(folder: Path) -> list[tuple[str, str]]:
    with Ledger.open(folder / "ledger.jsonl", read_only=True) as ledger:
        return [(one.epoch, one.source) for one in ledger.charges()]


@pytest.mark.parametrize("kind", PUSH)
def test_after_a_cap_was_raised_the_opening_is_charged_and_no_row(
    tmp_path: Path, kind: str
) -> None:
    """Caught: single streams and keys were charged with the first event, or dropped row, to come
    after the cap was raised, so the ledger's time told when that was."""
    opened, push = PUSH[kind]
    state = tmp_path / "state"
    with opened(state, source="city", cap="0.5") as run, pytest.raises(CapExceeded):
        push(run)
    assert charges(state) == []
    with Ledger.open(state / "ledger.jsonl") as ledger:
        ledger.set_cap(2)
    for _ in range(2):
        with opened(state, source="city") as run:
            assert len(charges(state)) == 1
            push(run)
        assert len(charges(state)) == 1


@pytest.mark.parametrize("kind", PUSH)
def test_a_kill_between_the_first_commit_and_its_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Caught: the state was there and not charged, until the first row came."""
    opened, _ = PUSH[kind]

    def killed(*_: Any, **__: Any) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(Charging, "begin", killed)
        with pytest.raises(Interrupted):
            opened(tmp_path / "state")
    opened(tmp_path / "state").close()
    assert len(charges(tmp_path / "state")) == 1


@pytest.mark.parametrize("kind", PUSH)
def test_made_closed_opened_under_other_names_and_begun_anew(tmp_path: Path, kind: str) -> None:
    """One charge for each epoch, however it is opened, all under the first name."""
    opened, push = PUSH[kind]
    state = tmp_path / "state"
    opened(state, source="city", cap=5).close()
    ((first, name),) = charges(state)
    assert name == "city"
    for new_epoch in (False, True):
        with pytest.raises(StateError, match="belongs to the source 'city'"):
            opened(state, source="other", new_epoch=new_epoch)
    assert charges(state) == [(first, "city")]
    with opened(state, new_epoch=True) as run:
        epochs = [one for one, _ in charges(state)]
        assert (len(set(epochs)), epochs[0]) == (2, first)
        push(run)
    with opened(state) as run:
        push(run)
    assert charges(state) == [(one, "city") for one in epochs]


def sealed_as_before(public: Any, body: dict[str, Any], key: Any) -> bytes:
    return seal(public, {name: one for name, one in body.items() if name != "ledger"}, key)


def test_a_keyed_state_of_before_decision_0127_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its head has no anchor of the ledger, and declared keys were not charged when it was made."""
    opened, push = PUSH["declared keys"]
    state = tmp_path / "state"
    with monkeypatch.context() as patch:
        patch.setattr(Charging, "begin", lambda *_, **__: None)
        patch.setattr(committed_keyed_release, "seal", sealed_as_before)
        opened(state, source="city").close()
    assert charges(state) == []
    with opened(state, source="city") as run:
        assert len(charges(state)) == 1
        push(run)
    assert len(charges(state)) == 1
