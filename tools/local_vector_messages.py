"""The part of `local_vectors.py` about messages and clients: what is refused, in which words."""

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import tidegate as tg
from tidegate.errors import TidegateError
from tidegate.local.announcements_and_reports import Announcement, MessageError
from tidegate.local.client import Client
from tidegate.local.device_memory import Memory
from tidegate.local.integer_weights import WORDS, coin_weights
from tidegate.local.question_assignment import slot_of
from tidegate.local.questions import TailQuestion, ValueQuestion, WaveQuestion

MISSING = object()
_LIE, _TRUTH = coin_weights(Fraction(1))
TAIL = TailQuestion(level=20.0, dither=1.0, lie=_LIE).plain()
COIN = ValueQuestion.fitted(50, [[_TRUTH, _LIE], [_LIE, _TRUTH]], [-1.0, 1.0]).plain()
WAVE = WaveQuestion(top=100, bins=16, half=4, high=2**27, low=2**26).plain()


def announcement(**changes: Any) -> dict[str, Any]:
    """A sound announcement, but for the changes."""
    plain = {
        "tidegate": 1,
        "kind": "announcement",
        "round": "r1",
        "phase": "threshold",
        "epsilon": "1",
        "bound": "100",
        "resolution": "1",
        "slot": 0,
        "question": TAIL,
    }
    plain.update(changes)
    return {name: value for name, value in plain.items() if value is not MISSING}


def message_cases() -> Iterator[dict[str, Any]]:
    """Text of announcements, and the error that it is answered with: null if it is sound."""
    for text in _texts():
        try:
            Announcement.from_json(text)
        except MessageError as error:
            yield {"text": text, "error": str(error), "reason": error.reason}
        else:
            yield {"text": text, "error": None}


def _texts() -> Iterator[str]:
    sound = json.dumps(announcement())
    yield sound
    yield from ("", "null", "[]", '"announcement"', "{", sound[:-1], sound + "1", "17", "{}")
    yield sound.replace('"slot": 0', '"slot": NaN')
    yield sound.replace('"slot": 0', '"slot": 0, "slot": 0')
    yield sound.replace('"lie"', '"dither": 1, "lie"')
    yield sound.replace('"slot"', '"sl\\u006ft"')  # the same name in another spelling
    # A number is a double for every reader, however it is written.
    for spelling in ("0.0", "-0", "1e0", "65535.0", "655350e-1", "65535.00000000000001"):
        yield sound.replace('"slot": 0', f'"slot": {spelling}')
    for spelling in ("65535.5", "1e400", "1" * 5000, "65535.0000000001"):
        yield sound.replace('"slot": 0', f'"slot": {spelling}')
    for spelling in ("1.0", "1e0", "1.5", "10e-1"):
        yield sound.replace('"tidegate": 1', f'"tidegate": {spelling}')
    table = json.dumps(announcement(phase="stream", question=COIN))
    for spelling in ("50.0", "9007199254740993", "9007199254740994", "1e400"):
        yield table.replace('"threshold": 50', f'"threshold": {spelling}')
    for spelling in (f"{_LIE}.0", f"{_LIE}.5", "1e17", "1e400"):
        yield table.replace(f"{_LIE}]", f"{spelling}]", 1)
    for changes in _changes():
        yield json.dumps(announcement(**changes))
    for question in _questions():
        yield json.dumps(announcement(question=question))


def _changes() -> Iterator[dict[str, Any]]:
    for name in announcement():
        yield {name: MISSING}
        yield {name: None}
        yield {name: []}
    yield {"more": 1}
    for lower in ("-40", "-1/2", "-2/4", "0", "-0", "40", "--1", "-1.5", -40, None, "-" + "9" * 19):
        yield {"lower": lower}
    yield {"lower": "-40", "more": 1}
    yield {"lower": "-40", "slot": MISSING}
    yield {"slot": MISSING, "slots": 0}
    yield from ({"tidegate": value} for value in (0, 2, "1", True))
    yield from ({"kind": value} for value in ("report", "Announcement"))
    yield from ({"round": value} for value in ("", "a b", "é", "x" * 128, "x" * 129, 7))
    yield from ({"phase": value} for value in ("stream", "Stream", "", 1))
    for name in ("epsilon", "bound", "resolution"):
        for value in ("1/2", "2/4", "0", "-1", "1.5", "1e3", "1/0", "01", " 1", "½", "1\n", 1, 0.5):
            yield {name: value}
        yield {name: "9" * 18}
        yield {name: "9" * 19}
    yield from ({"slot": value} for value in (65_535, 65_536, -1, 0.5, "0", True))


def _questions() -> Iterator[Any]:
    yield from (COIN, WAVE, "tail", {"form": "tails"}, {"form": ["tail"]}, {"form": "__proto__"})
    for sound, fields in (
        (TAIL, ("level", "dither", "lie")),
        (COIN, ("threshold", "weights", "outputs")),
        (WAVE, ("top", "bins", "half", "high", "low")),
    ):
        for name in fields:
            yield {key: value for key, value in sound.items() if key != name}
            wrong: list[Any] = [None, True, "1", -1, 0, 0.5, [], [[]], 2**54]
            yield from ({**sound, name: value} for value in wrong)
        yield {**sound, "more": 1}
    yield {**TAIL, "form": "tail-below"}
    yield {**TAIL, "form": "tail-below", "level": -1}
    yield {**TAIL, "below": True}
    for lowest in (-1, -(2**53), -(2**53) + 50, -(2**53) - 1, 0, 1, -0.5, "-1", None):
        yield {**COIN, "lowest": lowest}
    yield {**TAIL, "lie": WORDS // 2}
    yield {**TAIL, "lie": WORDS // 2 + 1}
    table = [[3 * 2**30, 2**30], [2**30, 3 * 2**30]]
    tables: list[tuple[Any, Any]] = [
        (table, [-1.0, 1.0]),  # the means do not reach −1 and 1
        (table, [2.0, -2.0]),  # they fall
        (table, [-2.0, 2.0, 0.0]),
        (table, [-2.0, "2"]),
        (table, [-2.0, True]),
        (table[:1], [-2.0, 2.0]),
        ([table[0], [2**30, 3 * 2**30 + 1]], [-2.0, 2.0]),
        ([[2**32, 1], [1, 2**32]], [-2.0, 2.0]),
        ([[2**32, 0], [0, 2**32]], [-1.0, 1.0]),
        ([[3.5, 1], [1, 3]], [-2.0, 2.0]),
        ([[True, 1], [1, 1]], [-2.0, 2.0]),
        ([{"0": 1}, [1, 3]], [-2.0, 2.0]),
        ({"0": [1, 3]}, [-2.0, 2.0]),
    ]
    for weights, outputs in tables:
        yield {**COIN, "weights": weights, "outputs": outputs}
    for outputs in ([-1e308, 1e308], [-(10**400), 10**400], [-(2**53), 2**53 + 2]):
        yield {**COIN, "outputs": outputs}
    small = [[2**24 - 2**22 - 1, 2**22], [2**22, 2**24 - 2**22 - 1]]
    yield {**COIN, "weights": small, "outputs": [-2.5, 2.5]}
    yield {**TAIL, "level": 10**400}
    yield {**TAIL, "dither": 1e300}
    yield {**WAVE, "top": 2**37 + 1}
    yield {**WAVE, "top": 2**37}
    yield {**WAVE, "high": 2**19, "low": 2**19 - 1}
    yield {**WAVE, "high": 2**25}  # below low
    yield {**WAVE, "high": 2**30}  # the total is too large


class Scenario:
    """A client that is asked one thing after another; keeps what it does."""

    def __init__(self, **settings: Any) -> None:
        self.settings = {"epsilon": "1", "bound": "100", **settings}
        self._client = Client(**self.settings, memory=Memory.volatile(), randomness=tg.seeded(1))
        self._steps: list[dict[str, Any]] = []

    def ask(self, value: Any, event: str, **changes: Any) -> "Scenario":
        """One announcement: answered anew, with the report of before, or not at all."""
        plain, before = announcement(**changes), len(self._client.ledger)
        try:
            number = float(value) if isinstance(value, str) else value
            self._client.answer(json.dumps(plain), number, event=event)
        except TidegateError as error:
            outcome: Any = [type(error).__name__, str(error)]
        else:
            outcome = "new" if len(self._client.ledger) > before else "again"
        left = str(self._client.left)
        step = {"announcement": plain, "value": value, "event": event}
        self._steps.append({**step, "outcome": outcome, "left": left})
        return self

    def plain(self) -> dict[str, Any]:
        return {"settings": self.settings, "steps": self._steps}


def client_cases() -> Iterator[dict[str, Any]]:
    """Whole lives of clients. Text such as "nan" is a value that JSON does not have."""
    life = Scenario(lifetime="5/2").ask(17, "monday").ask(99, "monday").ask("nan", "tuesday")
    life.ask(17, "monday", slot=1)  # another announcement under the same round
    life.ask(17, "monday", round="r2", phase="stream", question=COIN)  # the value in another phase
    life.ask(17, "tuesday", round="r2", phase="stream", question=COIN)
    life.ask(17, "wednesday", round="r3", question=WAVE)  # the lifetime would not allow it
    life.ask(17, "wednesday", round="r3", epsilon="1/2")  # nor does this question its epsilon
    half = TailQuestion.at(20.0, Fraction(1, 2), dither=1.0).plain()
    life.ask(17, "wednesday", round="r3", epsilon="1/2", question=half).ask(0, "thursday")
    life.ask(17, "thursday", round="r4", epsilon="1/2", question=half)
    yield life.plain()
    yield Scenario().ask(1, "").ask(2, "").ask(1, "", round="r2").plain()
    refused = Scenario(epsilon="1/2", lifetime="100", resolution="1/10")
    refused.ask(1, "a").ask(1, "a", epsilon="1/2").ask(1, "a", epsilon="1/2", resolution="1/10")
    steps = {"epsilon": "1/2", "resolution": "1/10", "question": half}
    refused.ask(1, "a", **{**steps, "bound": "101"})
    refused.ask(1, "a", **{**steps, "question": {**half, "level": 1000.5}})
    refused.ask(1, "a", **{**steps, "question": {**half, "dither": 1000.5}})
    refused.ask(1, "a", **{**steps, "question": {**COIN, "threshold": 1001}})
    refused.ask(1, "a", **{**steps, "question": {**WAVE, "top": 1001}})
    refused.ask(1, "a", **{**steps, "round": "bad round"})
    for value in (-0.5, 100.5, "nan", "inf", "-inf", None, True, [1]):
        refused.ask(value, "a", **steps)
    yield refused.ask(0, "a", **steps).plain()
    tenth = {"bound": "1/10", "resolution": "1/100", "question": {**TAIL, "level": 5.0}}
    yield (
        Scenario(bound="1/10", resolution="1/100")
        .ask(0.11, "", **tenth)
        .ask(0.1, "", **tenth)
        .plain()
    )  # the float 0.1 is a little above 1/10, and counts as it
    signed = Scenario(lower="-5/2", resolution="1/10", lifetime="100")
    signed_steps = {"resolution": "1/10", "lower": "-5/2"}
    below = {**TAIL, "form": "tail-below"}
    signed.ask(-2, "a", **signed_steps, question={**below, "level": 25.5})
    signed.ask(-2, "a", **{**signed_steps, "lower": "-3"})
    signed.ask(-2, "a", **signed_steps, question={**COIN, "lowest": -26})
    signed.ask(-2.6, "a", **signed_steps, question=below)
    signed.ask(-2.5, "a", **signed_steps, question=below)
    signed.ask(-1, "b", **signed_steps, round="r2", question={**COIN, "lowest": -25})
    signed.ask(-1, "c", resolution="1/10", round="r3")  # a round that does not speak of it
    yield signed.plain()
    # A device that knows no values below 0 refuses to be asked about them.
    yield Scenario().ask(1, "", lower="-1").ask(1, "", question=below).plain()
    clamped = Scenario(clamp=True, lifetime="100")
    for index, value in enumerate((-0.5, 100.5, "nan", "inf", "-inf", None, True, [1], 10**30)):
        clamped.ask(value, f"event {index}", round=f"r{index}")
    yield clamped.plain()


def name_cases() -> Iterator[list[str]]:
    """Key, purpose, text and the keyed digest that a device goes by."""
    key = bytes(range(32))
    client = Client(epsilon=1, bound=100, memory=Memory(None, key, []))
    for purpose, text in (("event", ""), ("event", "2026-11-15 é"), ("client", "r1")):
        yield [key.hex(), purpose, text, client._keyed(purpose, text)]


def slot_cases() -> Iterator[list[Any]]:
    """Round, client, how many slots, and which of them is the client's."""
    for name in ("r1", "37a2fd025960e0c5.1.0", "x" * 128):
        for client in ("a", "b", "5f", "~" * 128):
            for slots in (1, 2, 3, 15, 30, 65_536):
                yield [name, client, slots, slot_of(name, client, slots)]


def pick_cases() -> Iterator[dict[str, Any]]:
    """A client's name, announcements, and the slot that it picks of them or the error."""
    lists = [
        [announcement(slot=slot) for slot in slots]
        for slots in ((0, 1, 2), (2, 0, 1), (0,), (0, 1, 3), (0, 1, 1), (1, 2))
    ]
    lists += [[], [announcement(slot=0), announcement(slot=1, round="r2")]]
    lists += [[announcement(slot=0), announcement(slot=-1)]]
    for announcements in lists:
        for name in ("a", "b", "c"):
            client = Client(epsilon=1, bound=100, memory=Memory.volatile(), name=name)
            try:
                outcome: Any = client.pick(map(json.dumps, announcements)).slot
            except MessageError as error:
                outcome = str(error)
            yield {"name": name, "announcements": announcements, "outcome": outcome}
