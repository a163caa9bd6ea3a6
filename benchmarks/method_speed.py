"""How fast every online method is in bulk: million values a second of processor time.

`python -m benchmarks.method_speed [--quick] [METHOD...]`. Pushes of 2^16 values, the best counts. A
method that decides value by value is as slow as its decisions are many, so each runs on a random
walk, on steps, on independent values, on spikes and on values that go to and fro, at small and
large ε; the slowest of these is its row.

Other programs slow a push down, in processor time too. So a loop of plain Python runs in turns with
the pushes, and a row also says how many statements of such a loop a value costs: this number hardly
depends on the load.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from inspect import signature

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from benchmarks.table import Row, at_least, show
from tidegate.methods import Method, registered
from tidegate.methods._registration import SHARED

_BOUND = 200
_PUSH = 1 << 16
_EPSILONS = (0.1, 1, 10, 100)
_STATEMENTS = 100_000  # of the loop beside each push
_LEAST = 1.0  # million values a second

Form = dict[str, bool | int]  # settings beside the shared ones


def measure(quick: bool, only: Sequence[str] = ()) -> list[Row]:
    """A row for each form of each method of the central model: its slowest case."""
    methods = [method for method in registered() if method.model == "central"]
    names = [method.name for method in methods]
    for name in only:
        if name not in names:
            raise SystemExit(f"there is no method {name!r}: choose from {', '.join(names)}")
    return [
        _row(method, form, quick)
        for method in methods
        if not only or method.name in only
        for form in ({}, *_forms(method))
    ]


def _forms(method: Method) -> list[Form]:
    """Other forms of this method: what only it can be asked for."""
    taken = signature(method.preset).parameters.values()
    flags = [one.name for one in taken if one.default is False and one.name not in SHARED]
    found: list[Form] = [{flag: True} for flag in flags]
    return [*found, {"every": 1}] if method.name == "sampling" else found  # Uniform


def _row(method: Method, form: Form, quick: bool) -> Row:
    found = {}
    for stream, values in _streams().items():
        for epsilon in _EPSILONS[1:3] if quick else _EPSILONS:
            with suppress(tg.SettingError):  # some take no large ε
                pushes = 4 if quick else 10
                found[f"{stream}, e={epsilon:g}"] = _rate(method, form, values, epsilon, pushes)
    slowest = max(found, key=lambda case: found[case][1])
    fastest = min(found, key=lambda case: found[case][1])
    rate, statements = found[slowest]
    note = (
        f"{statements:.0f} Python statements a value on {slowest}; {found[fastest][1]:.0f} on "
        f"{fastest}"
    )
    told = (name if value is True else f"{name}={value}" for name, value in form.items())
    name = " ".join([method.name, *told])
    return at_least(f"{name} in bulk", rate, _LEAST, "M/s", note)


def _streams() -> dict[str, NDArray[np.float64]]:
    random = np.random.default_rng(1)
    walk = np.abs(np.cumsum(random.normal(0, 2, _PUSH)) % (2 * _BOUND) - _BOUND).round()
    steps = np.repeat(random.integers(0, _BOUND, _PUSH // 512), 512).astype(np.float64)
    independent = random.integers(0, _BOUND + 1, _PUSH).astype(np.float64)
    spikes = np.where(random.random(_PUSH) < 0.02, _BOUND, 3).astype(np.float64)
    to_and_fro = np.where(np.arange(_PUSH) % 2, _BOUND, 0).astype(np.float64)
    return {
        "walk": walk,
        "steps": steps,
        "independent": independent,
        "spikes": spikes,
        "to and fro": to_and_fro,
    }


def _rate(
    method: Method, form: Form, values: NDArray[np.float64], epsilon: float, pushes: int
) -> tuple[float, float]:
    """Million values a second, and what a value costs in statements of Python."""
    given = {"epsilon": epsilon, "bound": _BOUND, "resolution": 1}  # the rest as by default
    made = method.preset(**given, **form)
    release = made.start(tg.seeded(3))
    if waiting := release.holding + release.warming:
        release.push(np.resize(values, waiting))
    release.push(values)
    seconds, statements = [], []
    for _ in range(pushes):
        start = time.process_time()
        release.push(values)
        middle = time.process_time()
        _statements()
        seconds.append(middle - start)
        statements.append(time.process_time() - middle)
    each = min(seconds) / values.size
    return 1e-6 / each, each / (min(statements) / _STATEMENTS)


def _statements() -> int:
    total = 0
    for each in range(_STATEMENTS):
        total += each
    return total


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if word != "--quick"]
    show("methods in bulk, processor time", measure("--quick" in sys.argv, given))
