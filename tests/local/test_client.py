"""The device's side: what it refuses, what it remembers, what survives a kill."""

import json
import os
import threading
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tidegate as tg
from tidegate.errors import InputError, RefusedError, SettingError
from tidegate.local import device_memory as memory_module
from tidegate.local.announcements_and_reports import Announcement, MessageError
from tidegate.local.client import Client
from tidegate.local.device_memory import DeviceMemoryError, Memory, Pin
from tidegate.local.integer_weights import WORDS, coin_weights
from tidegate.local.questions import TailQuestion, ValueQuestion, WaveQuestion

ONE = Fraction(1)


def coin(threshold: int = 100, epsilon: Fraction = ONE) -> ValueQuestion:
    """Stochastic rounding at exactly ε."""
    lie, truth = coin_weights(epsilon)
    return ValueQuestion.fitted(threshold, [[truth, lie], [lie, truth]], [-1.0, 1.0])


def asked(question: Any = None, **changed: Any) -> Announcement:
    fields: dict[str, Any] = {
        "round": "r1",
        "phase": "stream",
        "epsilon": ONE,
        "bound": Fraction(100),
        "resolution": ONE,
        "slot": 0,
        "question": coin() if question is None else question,
    }
    return Announcement(**{**fields, **changed})


def device(**changed: Any) -> Client:
    return Client(**{"epsilon": 1, "bound": 100, "memory": Memory.volatile(), **changed})


# -- what is refused, before the value is looked at -----------------------------------------------


class Untouchable:
    """A value that must not be looked at."""

    def __float__(self) -> float:
        raise AssertionError("the value was looked at")


lie, truth = coin_weights(ONE)
REFUSED: dict[str, dict[str, Any]] = {
    "more than its epsilon": {"epsilon": Fraction(1001, 1000)},
    "weights beyond the epsilon announced": {"epsilon": Fraction(999, 1000)},
    "weights one word beyond": {
        "question": ValueQuestion.fitted(
            100, [[truth + 1, lie - 1], [lie - 1, truth + 1]], [-1.0, 1.0]
        )
    },
    "one row beyond, of many": {
        "question": ValueQuestion.fitted(
            100,
            [[truth, lie], [truth - 7, lie + 7], [lie - 2, truth + 2]],
            [-1.0, 1.0],
        )
    },
    "a bit beyond": {"question": TailQuestion(level=20.0, dither=1.0, lie=lie - 1)},
    "a wave beyond": {
        "question": WaveQuestion(top=100, bins=16, half=2, high=271829000, low=100000000)
    },
    "a larger bound": {"bound": Fraction(101)},
    "a threshold beyond the bound": {"question": coin(101)},
    "a level beyond the bound": {"question": TailQuestion.at(100.5, ONE, dither=1.0)},
    "a dither beyond the bound": {"question": TailQuestion.at(50.0, ONE, dither=1e9)},
    "a wave beyond the bound": {
        "question": WaveQuestion(top=101, bins=16, half=2, high=20000000, low=10000000)
    },
    "another resolution": {"resolution": Fraction(1, 2)},
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_an_announcement_that_asks_too_much_is_refused(change: dict[str, Any]) -> None:
    client = device(lifetime=10, resolution=1)
    with pytest.raises(RefusedError):
        client.answer(asked(**change), Untouchable())
    assert client.ledger == ()
    assert client.left == 10
    client.answer(asked(), 50)  # and the device goes on


def test_a_device_without_a_resolution_takes_that_of_the_round() -> None:
    client = device(lifetime=10)
    for resolution in (ONE, Fraction(1, 100), Fraction(1, 3)):
        round_asked = asked(round=f"r {resolution}".replace("/", "-").replace(" ", "-"))
        changed = replace(round_asked, resolution=resolution)
        assert client.answer(changed, 50, event=str(resolution)).report in (0, 1)
    for hostile in (Fraction(101), Fraction(1, 10**15)):  # no step, or more than a float can count
        with pytest.raises(RefusedError, match="does not suit the bound"):
            client.answer(asked(round="r9", resolution=hostile), Untouchable())


def test_malformed_announcements_are_refused() -> None:
    client = device()
    plain = asked().plain()
    for text in (
        "",
        "{}",
        json.dumps({**plain, "tidegate": 2}),
        json.dumps({**plain, "question": {**plain["question"], "threshold": 0}}),
        json.dumps({**plain, "epsilon": "NaN"}),
        asked().json().replace("100", "NaN", 1),
    ):
        with pytest.raises(MessageError):
            client.answer(text, Untouchable())
    assert client.ledger == ()


def test_an_object_made_by_hand_is_read_as_strictly_as_text() -> None:
    with pytest.raises(MessageError, match="phase"):
        device().answer(asked(phase="census"), Untouchable())
    with pytest.raises(MessageError, match="epsilon"):
        device().answer(asked(epsilon=Fraction(-1)), Untouchable())


def test_exactly_epsilon_is_allowed() -> None:
    for question in (coin(), TailQuestion.at(20.0, ONE, dither=1.0)):
        assert device().answer(asked(question), 30).report in (0, 1)


BAD_VALUES = [
    None,
    True,
    "30",
    b"3",
    float("nan"),
    Decimal("nan"),
    [30],
    1j,
    -1,
    101,
    1e300,
    "",
    -1e-9,
]
BAD_VALUES += [float("inf"), 10**400, np.nan]


@pytest.mark.parametrize("value", BAD_VALUES, ids=lambda value: repr(value)[:20])
def test_a_bad_value_is_an_error_that_does_not_show_it_and_leaves_no_trace(value: Any) -> None:
    client = device()
    with pytest.raises(InputError) as caught:
        client.answer(asked(), value)
    assert len(repr(value)) < 3 or repr(value)[:9] not in str(caught.value)
    assert client.ledger == ()
    assert client.left == 1
    client.answer(asked(), 3)


@pytest.mark.parametrize("value", [-1, 101, 10**400, float("inf"), -1e300])
def test_values_beyond_the_bounds_can_be_clamped(value: Any) -> None:
    assert device(clamp=True).answer(asked(), value).report in (0, 1)


@pytest.mark.parametrize(
    "value", [0, 100, 99.5, Fraction(1, 3), Decimal("7.25"), np.float32(2), np.int8(3)]
)
def test_every_kind_of_number_is_a_value(value: Any) -> None:
    assert device().answer(asked(), value).report in (0, 1)


def test_a_value_equal_to_the_bound_is_within_it_though_floats_are_not_exact() -> None:
    tenth = Fraction(1, 10)  # as a float, 0.1 is a little more
    announcement = asked(coin(10), bound=tenth, resolution=Fraction(1, 100))
    client = device(bound=0.1, resolution=0.01)
    assert client.answer(announcement, 0.1).report in (0, 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0),
        ("epsilon", "nan"),
        ("lifetime", 0.5),
        ("lifetime", -1),
        ("bound", 0),
        ("resolution", 200),
        ("name", "with space"),
        ("name", ""),
        ("randomness", tg.seeded(1)),
    ],
)
def test_bad_settings_are_named(name: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(SettingError) as caught:
        Client(**{"epsilon": 1, "bound": 100, "memory": tmp_path / "memory", name: value})
    assert caught.value.setting == name
    assert not (tmp_path / "memory").exists()


# -- one report a round, one round a value --------------------------------------------------------


def test_a_round_that_comes_again_gets_the_same_report_whatever_the_value_is_now() -> None:
    question = coin()
    for _ in range(20):
        client = device(lifetime=50)
        first = client.answer(asked(question), 0)
        for value in (100, 50, Untouchable(), None):
            assert client.answer(asked(question).json(), value) == first
        assert len(client.ledger) == 1
        assert client.left == 49
        assert client.sent("r1") == first
        assert client.sent("r2") is None


@pytest.mark.parametrize(
    "change",
    [
        {"slot": 1},
        {"phase": "threshold"},
        {"epsilon": Fraction(1, 2), "question": coin(epsilon=Fraction(1, 2))},
        {"question": coin(99)},
        {"bound": Fraction(99), "question": coin(99)},
    ],
)
def test_another_announcement_under_the_same_round_is_refused(change: dict[str, Any]) -> None:
    client = device(lifetime=50)
    client.answer(asked(), 10, event="monday")
    with pytest.raises(RefusedError, match="another announcement"):
        client.answer(asked(**change), Untouchable(), event="tuesday")
    assert len(client.ledger) == 1


def test_a_value_takes_part_in_one_round_and_so_in_one_phase() -> None:
    client = device(lifetime=50)
    client.answer(asked(phase="threshold"), 10, event="monday")
    for phase in ("threshold", "stream"):
        with pytest.raises(RefusedError, match="this value"):
            client.answer(asked(phase=phase, round="r2"), Untouchable(), event="monday")
    client.answer(asked(round="r2"), 10, event="tuesday")
    assert [pin.phase for pin in client.ledger] == ["threshold", "stream"]


def test_any_text_is_a_name_for_a_value() -> None:
    client = device(lifetime=50)
    for number, event in enumerate(["", "ä", "\ud800", "a/b", "x" * 10_000]):
        client.answer(asked(round=f"r{number}"), 10, event=event)
    assert len({pin.event for pin in client.ledger}) == 5


@pytest.mark.parametrize("event", [17, 17.0, b"17", None, date(2026, 1, 1)])
def test_a_name_that_is_no_text_is_refused(event: Any) -> None:
    """17, 17.0 and b"17" were three names, and so three reports on one value."""
    client = device(lifetime=50)
    client.answer(asked(), 10, event="17")
    with pytest.raises(SettingError, match="event"):
        client.answer(asked(round="r2"), Untouchable(), event=event)
    assert len(client.ledger) == 1


def test_without_names_a_device_has_one_value() -> None:
    client = device(lifetime=50)
    client.answer(asked(), 10)
    with pytest.raises(RefusedError):
        client.answer(asked(round="r2"), 10)


def test_the_lifetime_is_exact_and_finite_by_default() -> None:
    client = device()
    assert client.lifetime == 1
    tenth = Fraction(1, 10)
    question = coin(epsilon=tenth)
    for number in range(10):  # as floats, ten tenths are less than one
        client.answer(asked(question, epsilon=tenth, round=f"r{number}"), 5, event=str(number))
    assert client.left == 0
    tiny = Fraction(1, 10**17)
    flat = ValueQuestion(
        threshold=100, weights=((2**31 + 1, 2**31 - 1), (2**31 - 1, 2**31 + 1)), outputs=(-4e9, 4e9)
    )
    with pytest.raises(RefusedError):
        flat.check(tiny)
    empty = TailQuestion(level=1.0, dither=0.0, lie=WORDS // 2)  # tells nothing: costs nothing
    with pytest.raises(RefusedError, match="lifetime"):
        client.answer(asked(empty, epsilon=tiny, round="last"), Untouchable(), event="last")
    assert len(client.ledger) == 10


def test_denominators_chosen_by_a_server_do_not_pile_up_and_round_against_it() -> None:
    memory = Memory.volatile()
    exact = Fraction(0)
    for number in range(60):
        epsilon = Fraction(1, 10**17 + 2 * number + 1)
        exact += epsilon
        memory.add(pin(f"r{number}", epsilon))
    assert memory.spent.denominator <= 10**36
    assert exact <= memory.spent <= exact + Fraction(60, 10**36)


def pin(name: str, epsilon: Fraction = ONE) -> Pin:
    return Pin(
        round=name,
        phase="stream",
        slot=0,
        epsilon=epsilon,
        digest="",
        event=name,
        client="c",
        report=0,
        time="",
    )


def test_cheap_rounds_cannot_fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "MOST_ROUNDS", 3)
    client = device(lifetime=1000)
    for number in range(3):
        client.answer(asked(round=f"r{number}"), 5, event=str(number))
    with pytest.raises(RefusedError, match="3 rounds"):
        client.answer(asked(round="r3"), Untouchable(), event="3")
    assert client.answer(asked(round="r1"), None).round == "r1"  # what was sent can be sent again


def test_the_ledger_says_what_was_spent_on_what_and_holds_no_value() -> None:
    # So long that no time, digest, name or key holds it by chance; exact as a float.
    value = 41.0 + 0x5EC2E7F1A9 / 2**40
    shown = repr(value)
    assert len(shown) > 15
    client = device(lifetime=3)
    client.answer(asked(phase="threshold", slot=2), value, event="secret meeting")
    (line,) = client.ledger
    assert (line.round, line.phase, line.slot, line.epsilon) == ("r1", "threshold", 2, 1)
    assert line.digest == asked(phase="threshold", slot=2).digest
    assert line.report in (0, 1)  # what was drawn: the rest of the line does not know the value
    text = json.dumps(line.plain()) + repr(line) + repr(client.memory) + repr(client)
    for mark in (shown, shown[:9], value.hex()[4:], "meeting", client.memory.key.hex()):
        assert mark not in text
    # The same announcement to the same device: a line that no other value would change.
    other = device(lifetime=3, memory=Memory(None, client.memory.key, []))
    other.answer(asked(phase="threshold", slot=2), 7, event="secret meeting")
    assert replace(other.ledger[0], report=line.report, time=line.time) == line


@pytest.mark.parametrize("shared", [True, False], ids=["one client", "one memory"])
def test_threads_get_one_report(shared: bool) -> None:
    memory = Memory.volatile()
    clients = [device(lifetime=10, memory=memory)] * 8
    if not shared:
        clients = [device(lifetime=10, memory=memory) for _ in range(8)]
    together, reports = threading.Barrier(8), []

    def answer(number: int) -> None:
        together.wait()
        reports.append(clients[number].answer(asked(), number))

    threads = [threading.Thread(target=answer, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(reports)) == 1
    assert len(reports) == 8


# -- names ----------------------------------------------------------------------------------------


def test_names_are_stable_in_a_round_and_unrelated_between_rounds_and_devices() -> None:
    client = device(lifetime=10)
    first = client.answer(asked(), 1, event="1").client
    assert client.answer(asked(), 1).client == first
    second = client.answer(asked(round="r2"), 1, event="2").client
    other = device().answer(asked(), 1).client
    assert len({first, second, other}) == 3
    assert all(len(bytes.fromhex(name)) == 16 for name in (first, second, other))
    assert device(name="account-17").answer(asked(), 1).client == "account-17"


# -- the disk -------------------------------------------------------------------------------------


def test_a_memory_on_disk_is_private_whole_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    with Memory.open(path) as memory:
        first = device(memory=memory, lifetime=2).answer(asked(), 7, event="monday")
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(file.name for file in tmp_path.iterdir()) == ["device.json"]
    with Memory.open(path) as memory:
        client = device(memory=memory, lifetime=2)
        assert client.answer(asked(), Untouchable()) == first
        assert client.left == 1
        with pytest.raises(RefusedError, match="this value"):
            client.answer(asked(round="r2"), Untouchable(), event="monday")
        client.answer(asked(round="r2"), 7, event="tuesday")
        with pytest.raises(RefusedError, match="lifetime"):
            client.answer(asked(round="r3"), Untouchable(), event="wednesday")


def test_a_memory_serves_one_client_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    with Memory.open(path), pytest.raises(DeviceMemoryError, match="in use"):
        Memory.open(path)
    Memory.open(path).close()


def test_a_closed_memory_reports_nothing(tmp_path: Path) -> None:
    memory = Memory.open(tmp_path / "device.json")
    client = device(memory=memory)
    memory.close()
    with pytest.raises(DeviceMemoryError, match="closed"):
        client.answer(asked(), Untouchable())


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[]",
        "null",
        '{"tidegate": 2, "kind": "memory", "key": "", "pins": []}',
        '{"tidegate": 1, "kind": "memory", "key": "ff", "pins": []}',
        '{"tidegate": 1, "kind": "memory", "key": "%s", "pins": [{"round": "r1"}]}' % ("f" * 64),
        '{"tidegate": 1, "kind": "memory", "key": "%s", "pins": [1]}' % ("f" * 64),
    ],
)
def test_a_damaged_memory_is_not_taken_for_an_empty_one(tmp_path: Path, content: str) -> None:
    path = tmp_path / "device.json"
    path.write_text(content)
    with pytest.raises(DeviceMemoryError, match="damaged"):
        Memory.open(path)
    assert path.read_text() == content


def test_a_memory_cut_short_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    with Memory.open(path) as memory:
        device(memory=memory).answer(asked(), 7)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(DeviceMemoryError):
            Memory.open(path)


def test_what_cannot_be_remembered_is_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory.open(tmp_path / "device.json")
    client = device(memory=memory, lifetime=5)
    client.answer(asked(), 7, event="1")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(DeviceMemoryError, match="nothing was reported"):
            client.answer(asked(round="r2"), 7, event="2")
    with pytest.raises(DeviceMemoryError):  # what the disk holds is not known any more
        client.answer(asked(round="r2"), 7, event="2")
    memory.close()
    with Memory.open(tmp_path / "device.json") as memory:
        assert [line.round for line in memory.pins] == ["r1"]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DeviceMemoryError, match="cannot use"):
        Memory.open(tmp_path / "nowhere" / "device.json")


# -- the report's distribution --------------------------------------------------------------------


def test_reports_have_the_distribution_that_was_checked_and_not_one_30_percent_off() -> None:
    """Of a device as a whole: memory, keystream and all."""
    question, count = coin(), 3000
    ones = sum(device().answer(asked(question), 100).report for _ in range(count))
    share = truth / WORDS  # e/(1 + e)
    assert stats.binomtest(ones, count, share).pvalue > 1e-6
    for factor in (0.7, 1.3):  # of epsilon
        other = coin_weights(Fraction(factor).limit_denominator(10))[1] / WORDS
        assert stats.binomtest(ones, count, other).pvalue < 1e-6


def test_a_seeded_client_is_a_simulation() -> None:
    client = device(randomness=tg.seeded(3))
    assert not client.guarantee.holds
    assert (
        client.answer(asked(), 40).report
        == device(randomness=tg.seeded(3)).answer(asked(), 40).report
    )
