"""A message shows a setting shortened: numbers with hundreds of digits are legal input."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields
from fractions import Fraction
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.fuzz.harness import limited
from tests.laws import catalogue
from tidegate import methods, plan
from tidegate.errors import LONGEST, InputError, QueryError, SettingError, TidegateError
from tidegate.exact_numbers import said
from tidegate.guarantee import Guarantee
from tidegate.io import SinkError, SourceError
from tidegate.ledger import Ledger, LedgerError
from tidegate.local.canonical_json import MessageError
from tidegate.local.client import Client
from tidegate.local.device_memory import Memory
from tidegate.methods._registration import EXAMPLE
from tidegate.noise._sampler_arguments import exact_sampler_argument, whole_sampler_argument
from tidegate.run.column_budgets import checked_column_names, shares_of

MOST = 500  # characters: what happened, where, and what to do; the longest lists all methods

_LONG, _LONGER = 10**1199 + 7, 3 * 10**1199 + 1
# All of them are read as numbers. Below 0, in (0, 1), at 1, in (1, 100), at 10⁶ and far beyond.
NUMBERS = [
    Fraction(-_LONG, _LONGER), Fraction(-1, _LONG), Fraction(1, _LONG), Fraction(_LONG, _LONGER),
    Fraction(_LONGER - 2, _LONGER), Fraction(_LONGER, _LONG), Fraction(40 * _LONG + 1, _LONG),
    Fraction(10**6 * _LONG + 1, _LONG), Fraction(10**17 * _LONG + 1, _LONG),
    Fraction(_LONG, 3), _LONG, "1e999", "1e-999", "0." + "3" * 1199, "9" * 1200, 2**62, 2**61 + 1,
]  # fmt: skip
WORDS = ["x" * 3000, "é" * 3000, ["9" * 1200] * 50, [Fraction(1, _LONG)] * 3, {"x" * 3000: 1}]


def tried(make: Callable[..., Any], good: dict[str, Any], name: str) -> Iterator[str]:
    """The messages for this setting; what is taken is no fault."""
    for value in [*NUMBERS, *WORDS]:
        try:
            with limited():
                made = make(**{**good, name: value})
                str(getattr(made, "guarantee", ""))
        except TidegateError as error:
            yield str(error)


def checked(messages: Iterator[str]) -> int:
    count = 0
    for message in messages:
        assert len(message) <= MOST, message
        count += 1
    return count


CLOCK = {"every": "1h", "start": "2024-02-01"}
METHODS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "events": (tg.events, {"epsilon": 1, "bound": 40, "every": "1h", "start": "2024-02-01"}),
    "event_means": (
        tg.event_means,
        {"epsilon": 1, "bound": 9, "every": "1h", "start": "2024-02-01"},
    ),
}
for _method in methods.registered():
    _taken = signature(_method.preset).parameters
    _good = {name: value for name, value in EXAMPLE.items() if name in _taken}
    METHODS[_method.name] = (_method.preset, {**_good, **_method.example})


@pytest.mark.parametrize("name", METHODS)
def test_every_setting_of_every_method(name: str) -> None:
    make, good = METHODS[name]
    make(**good)
    taken = [key for key in signature(make).parameters if key != "settings"]
    refused = {key: checked(tried(make, good, key)) for key in taken}
    assert all(refused.values()), refused  # no setting takes all of them


@pytest.mark.parametrize("name", catalogue.exported())
def test_every_setting_of_every_stage(name: str) -> None:
    stage = catalogue.exported()[name]
    names = [item.name for item in fields(stage)]
    good = {key: value for key, value in catalogue.SETTINGS.items() if key in names}
    for key in names:
        assert checked(tried(stage, good, key)), key


PIPELINE = tg.tops(epsilon=1, bound=40, horizon=60, holdout=37)
ADAPTIVE = tg.adaptive(epsilon=1, bound=40, horizon=60)
RELEASED = tg.flat(epsilon=1, bound=40, horizon=60, holdout=0).start(tg.seeded(1))
RELEASED.push([7] * 60)
OTHERS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Window": (tg.units.Window, {"length": 6}),
    "UserHorizon": (tg.units.UserHorizon, {"most": 6}),
    "window of tops": (
        lambda length: tg.tops(epsilon=1, bound=9, unit=tg.units.Window(length=length)),
        {"length": 1},
    ),
    "Client": (
        lambda **given: Client(**given, memory=Memory.volatile()),
        {"epsilon": 1, "bound": 40, "lower": 0, "resolution": 1, "lifetime": 2, "name": "a",
         "clamp": True},
    ),
    "expect": (
        lambda **given: plan.expect(PIPELINE, [5], **given),
        {"threshold": 9, "floor": 0, "roughness": 1},
    ),
    "expect of adaptive": (
        lambda **given: plan.expect(ADAPTIVE, [5], **given), {"threshold": 9, "roughness": 1}
    ),
    "needed_epsilon": (
        lambda **given: plan.needed_epsilon(
            lambda epsilon: tg.flat(epsilon, 9, holdout=0), length=60, falling=True, **given
        ),
        {"target": 10**6, "confidence": 0.9},
    ),
    "best_hierarchy": (
        lambda **given: plan.best_hierarchy(lengths=[5], fanouts=[4], **given),
        {"epsilon": 1, "horizon": 60, "roughness": 1},
    ),
    "fraction": (lambda scale: exact_sampler_argument("scale", scale), {"scale": Fraction(1, 2)}),
    "number": (lambda count: whole_sampler_argument("count", count, minimum=1), {"count": 1}),
    "query": (RELEASED.query, {"start": 0, "end": 40, "confidence": 0.9}),
    "keyed": (
        lambda key, threshold: tg.keyed(PIPELINE, keys=[key, key], threshold=threshold),
        {"key": 5, "threshold": "per key"},
    ),
    "columns": (lambda name: checked_column_names([name, name]), {"name": "fare"}),
    "shares": (lambda one, two: shares_of(["a", "b"], {"a": one, "b": two}), {"one": 1, "two": 2}),
    "release": (
        lambda **given: tg.release({"a": [1] * 5}, **given),
        {"value": "a", "epsilon": 9, "bound": 9, "method": "flat", "horizon": 9, "share": None,
         "late": "refuse", "zone": None},
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:ε = .* protects hardly anything:UserWarning")
@pytest.mark.parametrize("name", OTHERS)
def test_every_other_place_that_takes_a_setting(name: str) -> None:
    make, good = OTHERS[name]
    with suppress(TidegateError):  # a key that is declared twice
        make(**good)
    assert sum(checked(tried(make, good, key)) for key in good)


def test_the_ledger(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger", cap=Fraction(_LONG, _LONGER)) as ledger:
        cost = Guarantee(epsilon=Fraction(1))
        good: dict[str, Any] = {"source": "a", "epoch": "b", "stage": "c", "guarantee": cost}
        good |= {"start": 0, "end": None, "note": ""}
        assert sum(checked(tried(ledger.charge, good, key)) for key in good)
        for epsilon in NUMBERS:
            with pytest.raises(TidegateError) as caught:
                ledger.charge(**{**good, "guarantee": Guarantee(epsilon=Fraction(epsilon) + 1)})
            assert len(str(caught.value)) <= MOST
    with pytest.raises(SettingError) as caught:
        Ledger.open(tmp_path / "ledger", cap=Fraction(_LONGER, _LONG))
    assert len(str(caught.value)) <= MOST


LONG = "word " * 10_000
ERRORS = [
    TidegateError(LONG), SettingError("bound", LONG), SettingError(LONG, LONG), InputError(LONG),
    QueryError(LONG), SourceError(None, LONG, LONG), SinkError(None, "is full", LONG),
    LedgerError(Path(LONG), LONG, 7), MessageError(LONG),
]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_no_error_is_longer_than_it_may_be(error: TidegateError) -> None:
    # The last line of defence: whatever is put into a message.
    assert 100 < len(str(error)) <= LONGEST + 150
    assert "…" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # our own


def test_every_error_is_shortened() -> None:
    def below(kind: type) -> Iterator[type]:
        yield kind
        for one in kind.__subclasses__():
            yield from below(one)

    for module in pkgutil.walk_packages(tg.__path__, "tidegate."):
        if not module.name.startswith("tidegate.spark") and not module.name.endswith("__main__"):
            with suppress(ImportError):  # an extra that is not installed
                importlib.import_module(module.name)
    found = list(below(TidegateError))
    assert len(found) > 20
    assert [kind for kind in found if "__str__" in vars(kind)] == [TidegateError]


def test_what_is_shown_says_how_much_there_is() -> None:
    assert said(Fraction(1, 3)) == "1/3"
    assert said(_LONG) == f"{str(_LONG)[:60]}… (1,200 characters)"
    short = SettingError("bound", "must be greater than 0, not -1")
    assert str(short) == "bound: must be greater than 0, not -1"
    long = str(SettingError("state", f"cannot use {'/folder' * 500}: put it back"))
    assert long.startswith("state: cannot use /folder")
    assert long.endswith(": put it back")


@pytest.mark.parametrize("text", ["false", "no", 0, 1, None, "x" * 3000])
def test_what_is_neither_true_nor_false_is_refused(text: Any) -> None:
    """Catches: full="false" counted as yes."""
    for name, make in {
        "full": lambda **given: tg.honaker(epsilon=1, bound=9, **given),
        "fixed": lambda **given: tg.events(epsilon=1, bound=9, **CLOCK, **given),
        "cycles": lambda **given: tg.events(epsilon=1, bound=9, **CLOCK, **given),
        "clamp": lambda **given: Client(epsilon=1, bound=9, memory=Memory.volatile(), **given),
    }.items():
        with pytest.raises(SettingError) as caught:
            make(**{name: text})
        assert caught.value.setting == name
        assert len(str(caught.value)) <= MOST


@pytest.mark.parametrize("name", ["epsilon", "bound", "horizon"])
def test_a_duration_is_no_number(name: str) -> None:
    """Caught: numpy counts it as a whole number, and a TypeError came of it."""
    given: dict[str, Any] = {"epsilon": 1, "bound": 9, name: np.timedelta64(1, "s")}
    with pytest.raises(SettingError, match="must be a finite number"):
        tg.adaptive(**given)
