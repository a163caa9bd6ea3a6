"""Questions that go by the client's name: devices pick their own, no client can pick another."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidegate.errors import SettingError
from tidegate.local.announcements_and_reports import Report
from tidegate.local.device_memory import Memory
from tidegate.local.question_assignment import slot_of
from tidegate.local.report_checks import RejectedError
from tidegate.local.server import Server
from tidegate.local.server_store import ServerStateError
from tidegate.local.shuffle import Shuffler
from tidegate.local.topl import Topl

SETTINGS: dict[str, Any] = {"epsilon": 2, "bound": 500, "holdout": 600, "report": "hybrid"}
TOPL = Topl(resolution=1, **SETTINGS, horizon=2**12)


def _lie(server: Server, client: str, slot: int = 0) -> Report:
    """A client that always answers this question, and says "above"."""
    asked = server.announcements[slot]
    fields = {"round": asked.round, "phase": asked.phase, "epsilon": asked.epsilon}
    return Report(**fields, slot=slot, client=client, report=1)


def test_devices_pick_their_own_question_and_are_taken() -> None:
    server = TOPL.server(by_name=True)
    texts = [asked.json() for asked in server.announcements]
    assert len(texts) == 9
    slots = Counter[int]()
    for index in range(60):
        name = None if index % 2 else f"device-{index}"
        device = TOPL.client(Memory.volatile(), name=name)
        picked = device.pick(reversed(texts))
        assert picked == server.announcement(device.name_in(server.round))
        server.collect(device.answer(picked, index).json())
        slots[picked.slot] += 1
    assert (server.accepted, len(slots) > 3) == (60, True)


def test_another_question_is_rejected_and_nothing_is_recorded() -> None:
    server = TOPL.server(by_name=True)
    own = slot_of(server.round, "a", len(server.announcements))
    before = server.collection.plain()
    for slot in range(len(server.announcements)):
        if slot != own:
            with pytest.raises(RejectedError, match="asked another question"):
                server.collect(_lie(server, "a", slot))
    assert server.collection.plain() == before
    server.collect(_lie(server, "a", own))  # and so may still answer its own
    assert server.rejected == {"assignment": len(server.announcements) - 1}


def test_clients_with_given_names_cannot_gather_at_one_question() -> None:
    """The attack: 100 clients answer the same of S questions. By name, one in S can."""
    rotation, by_name = TOPL.server(), TOPL.server(by_name=True)
    slots = len(rotation.announcements)
    names = [f"account-{index}" for index in range(100)]
    assert rotation.collect_many(_lie(rotation, name) for name in names).accepted == 100
    taken = by_name.collect_many(_lie(by_name, name) for name in names)
    assert taken.accepted == sum(slot_of(by_name.round, name, slots) == 0 for name in names)
    assert taken.accepted < 100 * 4 / slots
    # What it does not stop: who makes up names makes up one that fits.
    made_up = (f"name-{index}" for index in range(10_000))
    fitting = next(name for name in made_up if slot_of(by_name.round, name, slots) == 0)
    by_name.collect(_lie(by_name, fitting))


def test_slots_are_equally_likely_and_differ_from_round_to_round() -> None:
    names = [f"client-{index}" for index in range(12_000)]
    first = [slot_of("r1", name, 12) for name in names]
    assert sum((count - 1000) ** 2 / 1000 for count in Counter(first).values()) < 31.3  # 0.1 %
    same = sum(slot == slot_of("r2", name, 12) for slot, name in zip(first, names, strict=True))
    assert abs(same - 1000) < 4 * 30.3


def test_a_file_remembers_that_questions_go_by_name(tmp_path: Path) -> None:
    path = tmp_path / "server"
    TOPL.server(path, by_name=True).close()
    with TOPL.server(path) as server:
        assert server.by_name
        with pytest.raises(SettingError, match="client"):
            server.announcement()
    with pytest.raises(ServerStateError, match="other settings"):
        TOPL.server(path, by_name=False)
    TOPL.server(tmp_path / "other").close()
    with pytest.raises(ServerStateError, match="other settings"):
        TOPL.server(tmp_path / "other", by_name=True)


def test_a_shuffler_sees_to_it_where_names_are_stripped() -> None:
    server = TOPL.server(by_name=True)
    slots = len(server.announcements)
    shuffler = Shuffler(server.round, slots=slots)
    own = slot_of(server.round, "a", slots)
    wrong = _lie(server, "a", (own + 1) % slots)
    assert not shuffler.add(wrong)
    assert shuffler.add(replace(wrong, slot=own))
    assert server.collect_shuffled(shuffler.release()).accepted == 1
