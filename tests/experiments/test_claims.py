"""Verdicts follow from numbers: each kind of claim, where it holds and where it does not."""

from typing import Any

import pytest

from experiments.claims import FAILS, HOLDS, PART, UNKNOWN, Verdict, verdicts
from experiments.claims.lookup import Lookup
from experiments.figures import Figure, Method
from experiments.results import Row


def row(method: str, epsilon: float, median: float, **more: Any) -> Row:
    facts: dict[str, Any] = {
        "figure": "f",
        "dataset": "pos",
        "metric": "mse",
        "std": 0.0,
        "runs": 3,
        "at": "",
        "setting": "",
        "seed": 1,
        "ranges": 200,
        "version": "v",
        "checksum": "c",
        "source": "s",
        "label": "POS",
    }
    return Row(method=method, epsilon=epsilon, mean=median, median=median, **{**facts, **more})


ROWS = [
    *(row("A", 0.1, 10.0), row("B", 0.1, 2.0), row("C", 0.1, 3.0)),
    *(row("A", 0.2, 6.0), row("B", 0.2, 3.0), row("C", 0.2, 2.0)),
    *(row("A", 0.1, 20.0, setting="other"), row("B", 0.1, 1.0, setting="other")),
    row("A", 0.1, 7.0, at="3"),
    row("B", 0.1, 50.0, dataset="dns", label="DNS"),
    row("C", 0.1, 5.0, dataset="dns", label="DNS"),
]  # fmt: skip


def judged(**claim: Any) -> Verdict:
    claim = {"says": "s", "datasets": ["pos"], "settings": [""], **claim}
    methods = [Method(name, {}) for name in "ABC"]
    figure = Figure("f", "t", "curves", 1, "", "a", methods, [], ["mse"], [claim])
    return verdicts(figure, Lookup(ROWS))[0]


@pytest.mark.parametrize(
    ("claim", "verdict", "measured"),
    [
        ({"kind": "ratio", "of": "A", "over": "B", "low": 2, "high": 5}, HOLDS, [5.0, 2.0]),
        ({"kind": "ratio", "of": "A", "over": "B", "low": 3}, PART, [5.0, 2.0]),
        ({"kind": "ratio", "of": "A", "over": "B", "high": 1}, FAILS, [5.0, 2.0]),
        ({"kind": "ratio", "of": "A", "over": "B", "low": 3, "pool": True}, HOLDS, [10**0.5]),
        ({"kind": "ratio", "of": "A", "over": "B", "low": 3, "somewhere": True}, HOLDS, [5.0, 2.0]),
        ({"kind": "ratio", "of": "A", "over": "B", "epsilons": [0.2, 1], "high": 2}, HOLDS, [2.0]),
        (
            {
                "kind": "ratio", "of": "A", "over": "B",
                "of_epsilon": 0.2, "over_epsilon": 0.1, "low": 3,
            },
            HOLDS,
            [3.0],
        ),
        (
            {
                "kind": "ratio", "of": "A", "over": "A", "of_setting": "other",
                "over_setting": "", "factor": 0.5, "high": 1,
            },
            HOLDS,
            [1.0],
        ),
        ({"kind": "across", "of": ["A", "B"], "low": 1}, PART, [10 / 6, 2 / 3]),
        ({"kind": "across", "of": "A", "low": 1, "high": 2}, HOLDS, [10 / 6]),
        ({"kind": "value", "of": "B", "high": 2.5}, PART, [2.0, 3.0]),
        ({"kind": "best", "of": "B", "among": ["A", "C"]}, PART, [2 / 3, 1.5]),
        ({"kind": "best", "of": "B", "among": ["A", "C"], "within": 1.5}, HOLDS, [2 / 3, 1.5]),
        ({"kind": "best", "of": "B", "among": ["A", "C"], "pool": True}, HOLDS, [1.0]),
        ({"kind": "target", "of": "A", "values": {"0.1": 6.0, "0.2": 1.0}}, PART, [10 / 6, 6.0]),
        ({"kind": "value", "of": "B", "high": 1, "metric": "mae"}, UNKNOWN, []),
        ({"kind": "ratio", "of": "A", "over": "B", "low": 1, "datasets": ["dns"]}, UNKNOWN, []),
    ],
)  # fmt: skip
def test_verdicts(claim: dict[str, Any], verdict: str, measured: list[float]) -> None:
    result = judged(**claim)
    assert [check.measured for check in result.checks] == pytest.approx(measured)
    assert result.verdict == verdict
    assert result.expected


def test_a_claim_speaks_of_every_stream_unless_it_names_some() -> None:
    result = judged(kind="ratio", of="B", over="C", high=2, datasets=["pos", "dns"])
    assert [(found.label, count) for found, _, count in result.by_stream()] == [
        ("POS", "2 of 2"),
        ("DNS", "0 of 1"),
    ]


def table_rows(name: str, label: str, numbers: tuple[float, ...]) -> list[Row]:
    columns = ("n", "p85", "p95", "p995", "p100", "mean")
    return [
        row("A", 0.0, number, dataset=name, label=label, metric=column)
        for column, number in zip(columns, numbers, strict=True)
    ]


def test_the_table_is_met_exactly_or_not() -> None:
    figure = Figure(
        "f", "t", "table", 1, "", "a", [Method("A", {})], [], [],
        [
            {"says": "s", "kind": "table", "of": "A"},
            {
                "says": "s", "kind": "closer", "of": "A", "row": "fare",
                "dataset": "taxi_distance", "than": "taxi_cents",
            },
        ],
    )  # fmt: skip
    rows = table_rows("pos", "POS", (515597, 13, 21, 39, 165, 7.53))
    rows += table_rows("kosarak", "Kosarak", (990002, 10, 28, 133, 2497, 8.1))
    rows += table_rows("taxi_distance", "d", (1, 500, 1000, 2400, 20000, 310))
    rows += table_rows("taxi_cents", "c", (1, 2300, 3900, 8100, 400000, 1540))
    table, closer = verdicts(figure, Lookup(rows))
    assert [check.holds for check in table.checks] == [True, False]
    assert closer.verdict == HOLDS
    assert closer.checks[0].measured < 1.3
