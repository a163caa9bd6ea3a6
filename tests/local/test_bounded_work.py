"""A message costs a bounded amount of work, whoever sent it, and nobody waits for it in a lock."""

import json
import threading
from fractions import Fraction
from typing import Any

import pytest

from tests.local.devices import asked, device
from tests.local.settings import GIVEN
from tidegate.errors import RefusedError
from tidegate.local import canonical_json, integer_weights
from tidegate.local.announcements_and_reports import Announcement, MessageError, Report
from tidegate.local.device_memory import Memory
from tidegate.local.questions import ValueQuestion
from tidegate.local.report_variance import MECHANISMS
from tidegate.local.topl import Topl

REPORT = Report(round="r1", phase="stream", epsilon=Fraction(1), slot=0, client="a", report=1)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many characters were handed to the JSON decoder, call by call."""
    lengths: list[int] = []
    decode = canonical_json._DECODER.decode

    def counted(text: str) -> Any:
        lengths.append(len(text))
        return decode(text)

    monkeypatch.setattr(canonical_json._DECODER, "decode", counted)
    return lengths


def four_million(kind: str) -> dict[str, str]:
    """Messages of 4 MB that once took seconds."""
    head = json.dumps({"tidegate": 1, "kind": kind})[:-1]
    names = ",".join(f'"{number}":1' for number in range(400_000))
    return {
        "numbers": f'{head}, "report": [{"1," * 2_000_000}1]}}',
        "objects": f'{head}, "report": [{"{}," * 1_300_000}1]}}',
        "digits": f'{head}, "report": {"1" * 4_000_000}}}',
        "depth": f"{'[' * 2_000_000}{']' * 2_000_000}",
        "names": f"{head}, {names}}}",
        "spaces": REPORT.json() + " " * 4_000_000,
    }


@pytest.mark.parametrize("kind", ["report", "announcement"])
def test_a_message_that_is_too_long_is_refused_before_it_is_read(
    kind: str, decoded: list[int]
) -> None:
    reader = {"report": Report, "announcement": Announcement}[kind]
    for name, text in four_million(kind).items():
        for given in (text, text.encode()):
            with pytest.raises(MessageError, match="longer than"):
                reader.from_json(given)
            assert decoded == [], name


def test_a_server_and_a_device_refuse_them_too(decoded: list[int]) -> None:
    server = Topl(**GIVEN).server()
    received = server.collect_many(four_million("report").values())
    assert received.rejected == {"malformed": 6}
    client = device(Memory.volatile())
    for text in four_million("announcement").values():
        with pytest.raises(MessageError):
            client.answer(text, 7)
    assert decoded == []


def test_everything_that_tidegate_says_is_short_enough() -> None:
    # The largest tables come with the largest epsilon; the linear program of "optimal" is slow
    # there, and its tables have a quarter of the rows.
    for name, epsilon in {"hybrid": 10, "piecewise": 10, "optimal": 1}.items():
        question = MECHANISMS[name](2**53, Fraction(epsilon))
        text = asked("r" * 128, question).json()
        assert Announcement.from_json(text).question == question, name
        assert len(text) < canonical_json.LONGEST["announcement"] * 0.6
    longest = Report(
        round="r" * 128,
        phase="threshold",
        epsilon=Fraction(10**17 + 1, 10**17 + 3),
        slot=2**16 - 1,
        client="c" * 128,
        report=2**32 - 1,
    )
    escaped = longest.json().replace("c", "\\u0063").replace("r", "\\u0072")
    assert len(longest.json()) < len(escaped) < canonical_json.LONGEST["report"]


def test_a_device_computes_one_exponential_for_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each column took 18 seconds for the widest table that was allowed."""
    calls: list[int] = []
    bounds = integer_weights.exponential_bounds

    def counted(*arguments: int) -> tuple[int, int]:
        calls.append(1)
        return bounds(*arguments)

    monkeypatch.setattr(integer_weights, "exponential_bounds", counted)
    integer_weights._shrinkage.cache_clear()  # another test may have asked for the same epsilon
    columns = 8192
    rows = [[2**19 + 1] * (columns // 2) + [2**19 - 1] * (columns // 2)]
    rows.append(rows[0][::-1])
    outputs = [-1e6] * (columns // 2) + [1e6] * (columns // 2)
    widest = ValueQuestion(threshold=100, weights=tuple(map(tuple, rows)), outputs=tuple(outputs))
    device(Memory.volatile()).answer(asked(question=widest), 7)
    assert len(calls) == 1
    with pytest.raises(RefusedError):
        device(Memory.volatile()).answer(asked(question=widest, epsilon=Fraction(1, 10**9)), 7)
    assert len(calls) == 2


def test_a_table_with_too_many_cells_is_refused() -> None:
    plain = asked().plain()
    rows = [[1] * 200] * 200
    plain["question"] = {**plain["question"], "weights": rows, "outputs": [0.0] * 200}
    with pytest.raises(MessageError, match="at most 32768 cells"):
        Announcement.from_json(json.dumps(plain))


def test_of_endless_announcements_a_few_are_read() -> None:
    taken = 0

    def endless() -> Any:
        nonlocal taken
        while True:
            yield asked(slot=taken).json()
            taken += 1

    with pytest.raises(MessageError, match="at most 256"):
        device(Memory.volatile()).pick(endless())
    assert taken == 256


def test_nobody_waits_while_a_report_is_read() -> None:
    """Reading happens before the lock: another thread gets its announcement meanwhile."""
    server = Topl(**GIVEN).server()
    waited: list[bool] = []

    class Slow(Report):
        def json(self) -> str:
            thread = threading.Thread(target=server.announcement, daemon=True)
            thread.start()
            thread.join(timeout=240)  # far longer than it takes, on a loaded machine too
            waited.append(thread.is_alive())
            return super().json()

    server.collect_many([Slow(**vars(REPORT))])
    assert waited == [False]


def test_a_call_says_which_reports_were_rejected() -> None:
    server = Topl(**GIVEN).server()
    client = Topl(**GIVEN).client(name="a")
    good = client.answer(server.announcement(), 7)
    received = server.collect_many(["{}", good, good.json(), REPORT])
    assert received.rejected_at == {0: "malformed", 2: "duplicate", 3: "round"}
    assert (received.accepted, received.rejected.total()) == (1, 3)
    many = server.collect_many("{}" for _ in range(30_000))
    assert len(many.rejected_at) == 10_000
    assert many.rejected == {"malformed": 30_000}
    assert list(many.rejected_at) == list(range(10_000))
    # Of every one it is known what became of it: a device that is told "accepted" forgets it.
    assert {many.outcome(place) for place in range(30_000)} == {"malformed"}
    with pytest.raises(IndexError):
        many.outcome(30_000)
