"""The gate: what is acknowledged is durable and released once, on both databases."""

from __future__ import annotations

import shutil
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

import tidegate as tg
from tests.service.conftest import Place, sender
from tidegate.durable import StateError, StorageError
from tidegate.errors import InputError, MissingError, RefusedError
from tidegate.ledger import CapExceeded
from tidegate.service.pending_requests import Conflict, PendingPush, Receipt
from tidegate.service.released_rows import RowBlock, rows_between
from tidegate.service.service_process import Service
from tidegate.timestamps import read_times

PIPELINE = tg.adaptive(epsilon=1, bound=100, horizon=600)
VALUES = np.random.default_rng(3).gamma(2, 10, 700)


def create(service: Service, name: str = "meters", pipeline: Any = PIPELINE, **more: Any) -> None:
    service.gate.call(lambda: service.gate.streams.create(name, pipeline, **more)).result()


def rows_of(service: Service, name: str = "meters") -> list[RowBlock]:
    return list(rows_between(service.gate.database, name, 0, 10**9))


def released(service: Service, name: str = "meters") -> Any:
    return np.concatenate([rows.values for rows in rows_of(service, name)])


def test_requests_in_any_grouping_release_what_one_push_does(place: Place) -> None:
    """Law 1 over the gate: the state is copied, and both copies get the same values."""
    service = place.opened()
    create(service)
    sealed = service.gate.ask("meters", lambda run: run._release.snapshot())
    waiting = [PendingPush("meters", part) for part in np.split(VALUES, [1, 2, 3, 100, 350])]
    for one in waiting:  # the gate takes them together or apart, as they come
        service.gate.submit(one)
    starts = [one.answer.result(timeout=240).start for one in waiting]
    assert starts == [0, 1, 2, 3, 100, 350]
    alone = PIPELINE.resume(sealed)
    assert released(service).tobytes() == alone.push(VALUES).tobytes()
    found = service.gate.ask("meters", lambda run: run.query(50, 600))
    assert (found.estimate, found.low) == (lambda a: (a.estimate, a.low))(alone.query(50, 600))
    service.gate.close()
    again = place.opened()  # and after a restart
    assert again.gate.ask("meters", lambda run: run.query(50, 600)).estimate == found.estimate
    sender(again, "meters")(7.0, start=VALUES.size)
    assert released(again)[-1] == alone.push(7.0)
    again.gate.close()


def test_a_repeated_request_releases_nothing(place: Place) -> None:
    service = place.opened()
    create(service)
    send = sender(service, "meters")
    assert not send(1.0, 2.0, key="a").repeated
    again = send(1.0, 2.0, key="a")
    assert (again.start, again.count, again.repeated) == (0, 2, True)
    with pytest.raises(Conflict, match="another request"):
        send(1.0, 2.5, key="a")
    with pytest.raises(Conflict, match="missing"):
        send(9.0, start=3)
    assert send(9.0, 8.0, start=2).start == 2
    assert send(9.0, 8.0, start=2).repeated  # by its place, without a key
    for values in ((9.0, 8.5), (9.0,)):
        with pytest.raises(Conflict, match="by another request") as error:
            send(*values, start=2)
        assert error.value.seen == 4
    assert service.gate.ask("meters", lambda run: run.seen) == 4
    service.gate.close()


def test_the_cap_of_a_source_holds_over_its_streams(place: Place) -> None:
    service = place.opened(cap=1.5)
    for name in ("a", "b"):
        create(service, name, source="house")
    sender(service, "a")(1.0)
    with pytest.raises(CapExceeded):
        sender(service, "b")(1.0)
    create(service, "c", source="other house")
    sender(service, "c")(1.0)
    total = service.gate.streams.ledger.total
    assert (total("house").epsilon, total("other house").epsilon) == (1, 1)
    service.gate.close()


def test_one_wrong_request_does_not_harm_its_group(place: Place) -> None:
    service = place.opened()
    create(service)
    with service.gate.lock:  # so that they form one group
        good, wrong, last = (
            PendingPush("meters", np.array([1.0])),
            PendingPush("nowhere", np.array([1.0])),
            PendingPush("meters", np.array([2.0])),
        )
        for one in (good, wrong, last):
            service.gate.submit(one)
    assert (good.answer.result(240).start, last.answer.result(240).start) == (0, 1)
    with pytest.raises(MissingError):
        wrong.answer.result(240)
    service.gate.close()


def test_a_transaction_that_fails_releases_nothing_and_changes_no_noise(place: Place) -> None:
    """The database refuses a commit; the same values come again, then others: nobody saw noise."""
    service = place.opened()
    create(service)
    send = sender(service, "meters")
    send(*VALUES[:300])
    before = released(service)
    real = service.gate.database._counted
    service.gate.database._counted = _fails  # type: ignore[method-assign]
    with pytest.raises(StorageError):
        send(*VALUES[300:400])
    assert service.gate.failure is not None
    service.gate.database._counted = real  # type: ignore[method-assign]
    assert released(service).tobytes() == before.tobytes()
    assert send(*VALUES[300:400], start=300).start == 300
    assert service.gate.failure is None
    assert released(service).size == 400
    assert service.gate.ask("meters", lambda run: run.seen) == 400
    service.gate.close()


def _fails(connection: Any) -> None:
    connection.execute(text("SELECT * FROM no_such_table"))


def test_a_second_service_is_fenced_off(place: Place, tmp_path: Any) -> None:
    service = place.opened()
    with pytest.raises(StateError, match="another process"):
        place.opened()
    if place.url is not None:  # the same database from another folder
        with pytest.raises(StateError, match="another service"):
            Service.opened(tmp_path / "elsewhere", place.url)
    service.gate.close()


def test_a_restored_database_is_refused(tmp_path: Any) -> None:
    place = Place(tmp_path / "gate", None)
    service = place.opened()
    create(service)
    service.gate.close()
    shutil.copy(place.folder / "service.sqlite", tmp_path / "backup")
    service = place.opened()
    sender(service, "meters")(*VALUES[:200])
    service.gate.close()
    shutil.copy(tmp_path / "backup", place.folder / "service.sqlite")
    with pytest.raises(StateError, match="restored"):
        place.opened()


def test_a_restored_database_begins_new_epochs_and_keeps_every_charge(tmp_path: Any) -> None:
    """What the backup does not know was released: its noise must not be used again."""
    place = Place(tmp_path / "gate", None)
    service = place.opened()
    create(service)
    sender(service, "meters")(*VALUES[:50])
    service.gate.close()
    shutil.copy(place.folder / "service.sqlite", tmp_path / "backup")
    service = place.opened()
    before = sender(service, "meters")(*VALUES[50:200], start=50)
    assert before.start == 50
    lost = released(service)[50:]
    create(service, "after", source="house")  # charged after the backup, and lost with it
    sender(service, "after")(1.0)
    service.gate.close()
    shutil.copy(tmp_path / "backup", place.folder / "service.sqlite")
    for suffix in ("-wal", "-shm"):
        (place.folder / f"service.sqlite{suffix}").unlink(missing_ok=True)

    service = Service.opened(place.folder, None, b"k" * 32, new_epoch=True)
    assert service.gate.streams.ledger.total("house").epsilon == 1  # from the copy in the folder
    first = service.gate.ask("meters@1", lambda run: (run.position, run.epoch))
    assert first[0] == 50
    receipt = sender(service, "meters")(*VALUES[50:200])
    assert receipt.start == 0
    assert service.gate.ask("meters", lambda run: run.epoch) != first[1]
    assert not np.isin(released(service, "meters@2"), lost).any()
    assert service.gate.streams.ledger.total("meters").epsilon == 2
    with pytest.raises(RefusedError, match="retired"):
        sender(service, "meters@1")(1.0)
    service.gate.close()
    again = place.opened()  # not restored: it goes on
    assert sender(again, "meters")(3.0).start == 150
    again.gate.close()


def test_parts_of_a_source_do_not_add_up(place: Place) -> None:
    service = place.opened(cap=1.5)
    for name, part in (("north", "n"), ("south", "s")):
        create(service, name, source="city", part=part)
        sender(service, name)(1.0)
    assert service.gate.streams.ledger.total("city").epsilon == 1
    create(service, "whole", source="city")
    with pytest.raises(CapExceeded):
        sender(service, "whole")(1.0)
    service.gate.call(lambda: service.gate.streams.ledger.set_cap(2, source="city")).result()
    sender(service, "whole")(1.0)
    assert service.gate.streams.ledger.total("city").epsilon == 2
    service.gate.close()


def test_states_are_sealed(tmp_path: Any) -> None:
    place = Place(tmp_path / "gate", None)
    service = place.opened()
    create(service)
    sender(service, "meters")(*np.full(30, 77.25))  # held in the warm-up, raw
    service.gate.close()
    content = (place.folder / "service.sqlite").read_bytes()
    raw = np.full(3, PIPELINE.lattice.unit(77.25), dtype=np.int64).tobytes()
    assert raw not in content
    assert np.full(3, 77.25).tobytes() not in content
    unsealed = Place(tmp_path / "open", None)
    service = unsealed.opened(key=None)
    create(service)
    sender(service, "meters")(*np.full(30, 77.25))
    service.gate.close()
    assert raw in (unsealed.folder / "service.sqlite").read_bytes()
    with pytest.raises(StateError):
        place.opened(key=b"x" * 32).gate.ask("meters", lambda run: run.seen)


def together(service: Service, *waiting: PendingPush) -> list[Any]:
    """The outcomes of requests of one transaction."""
    service.gate.submit(*waiting)
    return [one.answer.exception(timeout=240) or one.answer.result() for one in waiting]


def request(*values: float, hour: int = 0, **more: Any) -> PendingPush:
    times = read_times([f"2024-01-01T{hour:02d}:{minute:02d}Z" for minute in range(len(values))])
    return PendingPush("meters", np.array(values), times, **more)


def test_a_request_behind_a_refused_one_is_a_gap(place: Place) -> None:
    service = place.opened()
    create(service)
    assert together(service, request(1, 2, hour=5)) == [Receipt(0, 2)]
    early = request(3, 4, 5, hour=4, start=2)  # before the rows that are there: refused
    behind, unplaced, right = request(6, hour=6, start=5), request(7, hour=7), request(8, hour=8)
    right.start = 3
    outcomes = together(service, early, behind, unplaced, right)
    assert isinstance(outcomes[0], InputError)
    assert isinstance(outcomes[1], Conflict)
    assert (str(outcomes[1]), outcomes[1].seen) == (
        "values are missing: the stream continues at 2, not at 5",
        2,
    )
    assert outcomes[2:] == [Receipt(2, 1), Receipt(3, 1)]
    service.gate.close()


def test_a_request_that_comes_twice_in_one_transaction_is_taken_once(place: Place) -> None:
    service = place.opened()
    create(service)
    key = {"key": "first"}
    outcomes = together(service, *(request(value, value, **key) for value in (7, 7, 8)))
    assert outcomes[:2] == [Receipt(0, 2), Receipt(0, 2, repeated=True)]
    assert isinstance(outcomes[2], Conflict)
    place_of = {"start": 2, "hour": 1}
    outcomes = together(service, *(request(value, **place_of) for value in (7, 7, 8)))
    assert outcomes[:2] == [Receipt(2, 1), Receipt(2, 1, repeated=True)]
    assert isinstance(outcomes[2], Conflict)
    refused = [request(9, hour=0, key="late"), request(9, hour=2, key="late")]
    outcomes = together(service, *refused)  # the first of them took nothing, so its key is free
    assert isinstance(outcomes[0], InputError)
    assert outcomes[1] == Receipt(3, 1)
    service.gate.close()


def test_a_request_that_the_cap_allows_in_part_is_refused_whole(place: Place) -> None:
    """Half of it was taken, and the request forgotten: sent again, that half came twice."""
    plain = tg.adaptive(epsilon=Fraction(1, 2), bound=9, resolution=1, horizon=64, holdout=4)
    again = tg.threshold.ScaleFree(epsilon=Fraction(1, 2), bound=9, holdout=8)
    reselect = tg.Reselection(threshold=again, every=20, blocking=False)  # ε more from there on
    service = place.opened()
    create = service.gate.streams.create
    made = replace(plain, reselect=reselect)
    service.gate.call(lambda: create("meters", made)).result()
    service.gate.call(lambda: service.gate.streams.ledger.set_cap("0.7", source="meters")).result()
    send = sender(service, "meters")
    assert send(*[1.0] * 8, key="a").count == 8
    with pytest.raises(CapExceeded):
        send(*[1.0] * (60), key="b")
    assert service.gate.ask("meters", lambda run: run.seen) == 8
    service.gate.call(lambda: service.gate.streams.ledger.set_cap("9", source="meters")).result()
    assert not send(*[1.0] * (60), key="b").repeated
    assert send(*[1.0] * (60), key="b").repeated
    assert service.gate.ask("meters", lambda run: run.seen) == 68
    service.gate.close()
