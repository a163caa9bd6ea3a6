"""What is refused half-way leaves memory as the database is; one stream's fault is not others'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sqlalchemy import update

import tidegate as tg
from tests.service.conftest import Place
from tests.service.test_raised_caps import EVENTS
from tidegate.durable import StateError
from tidegate.errors import SettingError
from tidegate.service import database_schema
from tidegate.service.open_streams import OpenStreams
from tidegate.service.pending_requests import PendingPush, Receipt, RequestsOfSameRows
from tidegate.service.service_process import Service
from tidegate.service.source_charges import source_charges

READINGS = tg.adaptive(epsilon="0.3", bound=9, horizon=64)


def changed(service: Service, change: Callable[[OpenStreams], Any]) -> Any:
    return service.gate.call(lambda: change(service.gate.streams)).result(timeout=240)


def pushed(service: Service, *names: str, rows: RequestsOfSameRows | None = None) -> list[Any]:
    """What one group of requests is answered: receipts, or the kind of the error."""
    sent = [PendingPush(name, np.array([1.0]), sender="label clinic", rows=rows) for name in names]
    service.gate.submit(*sent)
    problems = [one.answer.exception(timeout=240) for one in sent]
    found = zip(sent, problems, strict=True)
    return [type(problem or one.answer.result()) for one, problem in found]


def ledger(service: Service) -> Any:
    return service.gate.spent(lambda book: (book.cap_of("ward"), book.count, book.head))


def test_a_cap_is_raised_although_a_stream_cannot_be_charged_any_more(place: Place) -> None:
    """Caught: the change was refused and rolled back, memory went on with the higher cap, and the
    next entry followed one that is nowhere: after a restart the ledger could not be read."""
    service = place.opened()
    changed(service, lambda streams: streams.ledger.set_cap("0.5", source="ward"))
    changed(service, lambda streams: streams.create("events", EVENTS, "ward"))  # ε = 1: it waits
    changed(service, lambda streams: streams.create("rows", READINGS, "ward"))
    assert pushed(service, "rows") == [Receipt]  # charged per event: another unit
    changed(service, lambda streams: streams.set_cap("5", "ward"))
    changed(service, lambda streams: streams.create("more", READINGS, "ward"))
    assert pushed(service, "more") == [Receipt]
    before = ledger(service)
    service.gate.close()
    again = place.opened()
    assert ledger(again) == before
    assert again.gate.ask("events", lambda run: run.position) == 0  # it can be looked at
    assert pushed(again, "rows", "more") == [Receipt, Receipt]
    with pytest.raises(SettingError, match="cannot be added"):
        changed(again, lambda streams: streams.writable("events").advance("2024-01-01T02:00Z"))
    assert pushed(again, "rows") == [Receipt]
    again.gate.close()


@pytest.mark.parametrize("what", ["ledger", "stream"])
def test_a_change_that_is_refused_late_is_forgotten(place: Place, what: str) -> None:
    """What a change did before it was refused the database does not have, nor has memory."""

    def refused(streams: OpenStreams) -> None:
        if what == "ledger":
            streams.ledger.set_cap("5", source="ward")
        else:
            streams.retire("rows")
        raise SettingError("cap", "is refused now")

    service = place.opened()
    changed(service, lambda streams: streams.create("rows", READINGS, "ward"))
    assert pushed(service, "rows") == [Receipt]
    before = ledger(service)
    with pytest.raises(SettingError, match="refused now"):
        changed(service, refused)
    assert ledger(service) == before
    assert pushed(service, "rows") == [Receipt]
    assert service.gate.failure is None
    changed(service, lambda streams: streams.ledger.set_cap("6", source="ward"))
    service.gate.close()
    again = place.opened()
    assert ledger(again)[0] == 6
    again.gate.close()


@pytest.mark.parametrize("together", [False, True])
def test_a_damaged_state_fails_nobody_elses_requests(place: Place, together: bool) -> None:
    """Caught: all requests of the group got 500, and were told to report it."""

    def damage(streams: OpenStreams) -> None:
        table = database_schema.states
        change = update(table).where(table.c.stream == "fares.tip").values(body=b"x" * 500)
        streams._database.connection.execute(change)

    service = place.opened()
    changed(service, lambda streams: streams.create("good", READINGS))
    columns = {"fare": READINGS, "tip": READINGS}
    changed(service, lambda streams: streams.create_columns("fares", columns))
    assert pushed(service, "fares.tip", rows=RequestsOfSameRows() if together else None) == [
        Receipt
    ]
    changed(service, damage)
    service.gate.close()
    again = place.opened()
    rows = RequestsOfSameRows() if together else None
    assert pushed(again, "fares.tip", rows=rows) == [StateError]
    sent = [PendingPush("good", np.array([1.0]), sender="label clinic")]
    sent.append(PendingPush("fares.tip", np.array([1.0]), sender="label clinic", rows=rows))
    again.gate.submit(*sent)
    assert sent[0].answer.result(timeout=240).start == 0
    with pytest.raises(StateError, match=r"cannot be opened.*POST /v1/streams/fares\.tip/epochs"):
        sent[1].answer.result(timeout=240)
    changed(again, lambda streams: streams.begin_epoch("fares.tip", "asked for"))
    assert pushed(again, "fares.tip", rows=rows) == [Receipt]
    # Caught: what its source has spent could not be asked any more, for ever.
    (spent,) = source_charges(again.gate, "fares")["ranges"]
    assert [one["stream"] for one in spent["charges"]] == ["", "fares.tip"]
    again.gate.close()
