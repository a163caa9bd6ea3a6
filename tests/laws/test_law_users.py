"""Where users are protected: their surplus values count as 0, and the laws hold with names too."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tests.depth import examples
from tests.laws.catalogue import bits, known, stream

HOLDOUT, HORIZON, MOST = 30, 50, 2
PIPELINE = tg.tops(
    epsilon=1, bound=40, horizon=HORIZON, holdout=HOLDOUT, fanout=4, skipped=1,
    unit=tg.units.UserHorizon(most=MOST),
)  # fmt: skip
ADAPTIVE = tg.adaptive(
    epsilon=1, bound=40, horizon=HORIZON, holdout=HOLDOUT, unit=tg.units.UserHorizon(most=MOST)
)
VALUES = stream(170, seed=3)
USERS = [f"user {number}" for number in np.random.default_rng(1).integers(0, 12, size=170)]


def capped(values: np.ndarray, users: list[str]) -> np.ndarray:
    """At most MOST values of a user count in the hold-out, and in each horizon."""
    seen: dict[tuple[int, str], int] = {}
    out = values.copy()
    for index, user in enumerate(users):
        window = 0 if index < HOLDOUT else 1 + (index - HOLDOUT) // HORIZON
        seen[window, user] = seen.get((window, user), 0) + 1
        if seen[window, user] > MOST:
            out[index] = 0
    return out


@pytest.mark.parametrize("pipeline", [PIPELINE, ADAPTIVE], ids=["tops", "adaptive"])
def test_surplus_values_count_as_zero(pipeline: tg.Pipeline) -> None:
    one, two = pipeline.start(tg.seeded(2)), pipeline.start(tg.seeded(2))
    plain = capped(VALUES, USERS)
    assert np.count_nonzero(plain != VALUES) > 20
    strangers = [f"stranger {index}" for index in range(170)]  # nobody is capped
    assert bits(one.push(VALUES, USERS)) == bits(two.push(plain, strangers))


@cache
def undivided(pipeline: tg.Pipeline) -> tuple[bytes, Any]:
    """What is released, and known afterwards, if all values come at once."""
    whole = pipeline.start(tg.seeded(2))
    return bits(whole.push(VALUES, USERS)), known(whole)


@pytest.mark.parametrize("pipeline", [PIPELINE, ADAPTIVE], ids=["tops", "adaptive"])
@settings(max_examples=examples(10))  # splits and resumes have their own laws
@given(pieces=st.lists(st.tuples(st.integers(0, 60), st.sampled_from("asr")), max_size=10))
def test_any_split_and_any_resume_give_the_same_bits(
    pipeline: tg.Pipeline, pieces: list[tuple[int, str]]
) -> None:
    expected, wanted = undivided(pipeline)
    release = pipeline.start(tg.seeded(2))
    out: list[float] = []
    at = 0
    for size, how in [*pieces, (170, "a")]:
        values, users = VALUES[at : at + size], USERS[at : at + size]
        at += values.size
        if how == "s":
            pushed = [release.push(v, u) for v, u in zip(values.tolist(), users, strict=True)]
            out.extend(value for value in pushed if value is not None)
        else:
            out.extend(release.push(values, users))
        if how == "r":
            release = pipeline.resume(release.snapshot())
    assert bits(out) == expected
    assert known(release) == wanted


@pytest.mark.parametrize(
    "value",
    [None, float("nan"), 10**400, -(10**400), 7.5, True],
    ids=["None", "nan", "huge", "low", "half", "bool"],
)
def test_one_value_of_a_user_is_an_array_of_one(value: Any) -> None:
    one, two = PIPELINE.start(tg.seeded(2)), PIPELINE.start(tg.seeded(2))
    found = [one.push(value, f"user {index}") for index in range(50)]
    expected = two.push([value] * 50, [f"user {index}" for index in range(50)])
    assert bits(found[HOLDOUT:]) == bits(expected)


def test_users_must_be_named_one_per_value_and_only_where_they_are_protected() -> None:
    release = PIPELINE.start(tg.seeded(2))
    for values, users in (([1, 2], None), ([1, 2], ["a"]), ([1], ["a", "b"]), (1, None)):
        with pytest.raises(tg.InputError):
            release.push(values, users)
    assert release.seen == 0
    plain = tg.tops(epsilon=1, bound=40, horizon=50, holdout=30).start(tg.seeded(2))
    with pytest.raises(tg.InputError, match="does not protect users"):
        plain.push([1], ["a"])
    with pytest.raises(tg.InputError, match="does not protect users"):
        plain.push(1, "a")
    assert plain.seen == 0
