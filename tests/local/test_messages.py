"""Announcements and reports as text: what was written is read back, and nothing else is."""

import json
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.texts import texts
from tidegate.local.announcements_and_reports import Announcement, MessageError, Report
from tidegate.local.questions import TailQuestion, ValueQuestion, WaveQuestion

QUESTIONS = {
    "tail": TailQuestion.at(20.5, Fraction(1), dither=1.0),
    "value": ValueQuestion.fitted(10, [[3 << 30, 1 << 30], [1 << 30, 3 << 30]], [-1.0, 1.0]),
    "wave": WaveQuestion(top=100, bins=10, half=2, high=5 << 24, low=2 << 24),
}


def announcement(question: Any = QUESTIONS["tail"], **changed: Any) -> Announcement:
    fields: dict[str, Any] = {
        "round": "r-1",
        "phase": "threshold",
        "epsilon": Fraction(1),
        "bound": Fraction(100),
        "resolution": Fraction(1, 2),
        "slot": 3,
        "question": question,
    }
    return Announcement(**{**fields, **changed})


def report(**changed: Any) -> Report:
    fields: dict[str, Any] = {
        "round": "r-1",
        "phase": "stream",
        "epsilon": Fraction(1, 2),
        "slot": 0,
        "client": "5f3a",
        "report": 7,
    }
    return Report(**{**fields, **changed})


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_an_announcement_survives_the_wire(question: Any) -> None:
    sent = announcement(question)
    assert "\n" not in sent.json()
    for text in (sent.json(), sent.json().encode(), json.dumps(sent.plain(), indent=2)):
        read = Announcement.from_json(text)
        assert read == sent
        assert read.digest == sent.digest


def test_a_report_survives_the_wire_and_is_small() -> None:
    assert Report.from_json(report().json()) == report()
    assert len(report(client="f" * 32).json()) < 170


def test_the_wire_form_is_the_documented_one() -> None:
    assert json.loads(report().json()) == {
        "tidegate": 1,
        "kind": "report",
        "round": "r-1",
        "phase": "stream",
        "epsilon": "1/2",
        "slot": 0,
        "client": "5f3a",
        "report": 7,
    }
    plain = json.loads(announcement().json())
    assert {name: plain[name] for name in ("tidegate", "kind", "epsilon", "bound")} == {
        "tidegate": 1,
        "kind": "announcement",
        "epsilon": "1",
        "bound": "100",
    }
    assert plain["resolution"] == "1/2"
    assert plain["question"]["form"] == "tail"


def test_every_change_changes_the_digest() -> None:
    changes: list[dict[str, Any]] = [
        {"round": "r-2"},
        {"phase": "stream"},
        {"epsilon": Fraction(2)},
        {"bound": Fraction(99)},
        {"resolution": Fraction(1)},
        {"slot": 4},
        {"question": TailQuestion.at(20.25, Fraction(1), dither=1.0)},
    ]
    digests = {announcement(**change).digest for change in [{}, *changes]}
    assert len(digests) == len(changes) + 1


WRONG_VALUES: dict[str, list[Any]] = {
    "kind": ["report", "Announcement", None, 1],
    "tidegate": [0, 2, "1", True, None, 1.5],
    "round": ["", "a b", "ä", "x" * 129, 7, None, ["r"]],
    "phase": ["Threshold", "", None, 1, ["stream"]],
    "epsilon": [1, 1.0, "0", "-1", "1.0", "2/2", "1/0", "01", "1e3", " 1", "inf", "9" * 19, None],
    "bound": [100, "0", "-100", "NaN", None],
    "resolution": [1, "0", "1/0", None],
    "slot": [-1, 1.5, "0", True, 2**16, None],
    "client": ["", "a b", 5, None, "x" * 129],
    "report": [-1, 0.5, "0", True, 2**32, None, [1]],
}


@pytest.mark.parametrize("made", [announcement(), report()], ids=["announcement", "report"])
@pytest.mark.parametrize("field", WRONG_VALUES)
def test_a_wrong_field_is_an_error(made: Announcement | Report, field: str) -> None:
    plain = made.plain()
    if field not in plain:
        return
    kind = type(made)
    for value in WRONG_VALUES[field]:
        if (field, value) == ("kind", plain["kind"]):
            continue
        with pytest.raises(MessageError) as caught:
            kind.from_json(json.dumps({**plain, field: value}))
        named = {"kind": plain["kind"], "tidegate": "version"}.get(field, field)
        assert named in str(caught.value)
        assert caught.value.reason == ("version" if field == "tidegate" else "malformed")
    with pytest.raises(MessageError):
        kind.from_json(json.dumps({name: plain[name] for name in plain if name != field}))


def test_a_number_is_a_double_however_it_is_written() -> None:
    """JavaScript cannot tell 3.0 from 3: so nobody does, and the digest is the same."""
    asked, sent = announcement(), report()
    text = json.dumps({**asked.plain(), "tidegate": 1.0, "slot": float(asked.slot)})
    assert ".0" in text
    read = Announcement.from_json(text)
    assert (read, read.digest, type(read.slot)) == (asked, asked.digest, int)
    again = Report.from_json(json.dumps({**sent.plain(), "report": float(sent.report)}))
    assert (again, type(again.report)) == (sent, int)


WRONG_QUESTIONS: list[dict[str, Any]] = [
    {"form": "poll"},
    {"form": ["tail"]},
    {**QUESTIONS["tail"].plain(), "level": math.nan},
    {**QUESTIONS["tail"].plain(), "level": -1},
    {**QUESTIONS["tail"].plain(), "lie": 0},
    {**QUESTIONS["tail"].plain(), "tag": "device 17"},
    {**QUESTIONS["value"].plain(), "threshold": 0},
    {**QUESTIONS["value"].plain(), "threshold": -5},
    {**QUESTIONS["value"].plain(), "threshold": 2.5},
    {**QUESTIONS["value"].plain(), "weights": [[3, 1], [1]]},
    {**QUESTIONS["value"].plain(), "weights": [[3, 0], [1, 2]]},
    {**QUESTIONS["value"].plain(), "weights": [[10**400, 1], [1, 10**400]]},
    {**QUESTIONS["value"].plain(), "outputs": ["-1", "1"]},
    # Drawing a word below 4 would take 2**30 trials; infinite means would fail for some values.
    {**QUESTIONS["value"].plain(), "weights": [[3, 1], [1, 3]]},
    {**QUESTIONS["value"].plain(), "outputs": [-1e308, 1e308]},
    {**QUESTIONS["wave"].plain(), "high": 5, "low": 2},
    {**QUESTIONS["wave"].plain(), "top": 0},
    {**QUESTIONS["wave"].plain(), "low": 0},
    {**QUESTIONS["wave"].plain(), "high": 2**32},
]


@pytest.mark.parametrize("question", WRONG_QUESTIONS, ids=lambda plain: str(plain)[:60])
def test_a_wrong_question_is_an_error(question: dict[str, Any]) -> None:
    with pytest.raises(MessageError):
        Announcement.from_json(json.dumps({**announcement().plain(), "question": question}))


@pytest.mark.parametrize("question", [None, [], "tail", 3])
def test_a_question_that_is_no_object_is_an_error(question: Any) -> None:
    with pytest.raises(MessageError, match="question"):
        Announcement.from_json(json.dumps({**announcement().plain(), "question": question}))


TEXTS: dict[str, Any] = {
    "nothing": "",
    "no JSON": "hello",
    "cut short": report().json()[:-5],
    "two of them": report().json() * 2,
    "a list": f"[{report().json()}]",
    "a number": "7",
    "null": "null",
    "not UTF-8": b'{"tidegate": 1, "kind": "\xff"}',
    "a name twice": report().json().replace('"slot":0', '"slot":0,"slot":0'),
    "one field more": report().json()[:-1] + ',"note":1}',
    "one for another": report().json().replace('"client"', '"sender"'),
    "NaN": report().json().replace(":7", ":NaN"),
    "Infinity": report().json().replace(":7", ":Infinity"),
    "nested beyond measure": "[" * 100_000,
    "too long": " " * (1 << 22) + report().json(),
    "digits without end": report().json().replace(":7", ":" + "7" * 5000),
    "no text": None,
    "an object": {"tidegate": 1},
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_is_no_message_is_an_error(text: Any) -> None:
    for kind in (Report, Announcement):
        with pytest.raises(MessageError):
            kind.from_json(text)


@given(texts(max_size=200) | st.binary(max_size=200))
def test_noise_is_an_error_and_never_anything_else(text: str | bytes) -> None:
    with pytest.raises(MessageError):
        Report.from_json(text)


@given(st.data())
def test_a_damaged_report_is_an_error_or_another_report(data: st.DataObject) -> None:
    text = report().json().encode()
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + bytes([data.draw(st.integers(0, 255))]) + text[at + 1 :]
    try:
        read = Report.from_json(damaged)
    except MessageError:
        return
    assert Report.from_json(read.json()) == read


@given(st.data())
def test_the_one_spelling_is_read_as_every_other(data: st.DataObject) -> None:
    """By its pattern or field by field: the same report, or none by either."""
    fields = {
        "round": data.draw(
            st.sampled_from(["t.1", 'a"b', "a\\\\b", "~!", "", "é", "a b", "x" * 129])
        ),
        "phase": data.draw(st.sampled_from(["stream", "threshold", "other"])),
        "epsilon": data.draw(st.sampled_from(["1", "1/2", "2/4", "0", "01", "1/", "9" * 19])),
        "slot": data.draw(st.sampled_from([0, 7, (1 << 16) - 1, 1 << 16, -1, 10**15])),
        "client": data.draw(st.sampled_from(["5f3a", "[]", "\t"])),
        "report": data.draw(st.sampled_from([0, 3, 1 << 31, 1 << 32, 1 << 33, 10**16])),
    }
    plain = {"tidegate": 1, "kind": "report", **fields}
    text = json.dumps(plain, separators=(",", ":"), ensure_ascii=data.draw(st.booleans()))
    text = data.draw(st.sampled_from([text, text + " ", text.replace(":0,", ":00,"), text[:-1]]))
    with_spaces = text.replace('","', '", "')  # which the pattern does not know
    found = [_read(one) for one in (text, text.encode(), with_spaces, with_spaces.encode())]
    assert found == [found[0]] * 4
    if isinstance(found[0], Report):
        assert found[0].plain() == plain


def _read(text: str | bytes) -> Report | str:
    assert isinstance(text, str | bytes)
    try:
        return Report.from_json(text)
    except MessageError as error:
        return error.reason


@given(
    epsilon=st.fractions(Fraction(1, 10**6), Fraction(10**6), max_denominator=10**9),
    slot=st.integers(0, 2**16 - 1),
    answer=st.integers(0, 2**32 - 1),
    client=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=128),
)
def test_every_report_survives(epsilon: Fraction, slot: int, answer: int, client: str) -> None:
    made = report(epsilon=epsilon, slot=slot, report=answer, client=client)
    assert Report.from_json(made.json()) == made
