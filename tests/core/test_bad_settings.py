"""Wrong settings are refused by name, before anything is done; right ones are kept exactly."""

from __future__ import annotations

import os
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tidegate as tg

GOOD: dict[str, tuple[Any, dict[str, Any]]] = {
    "Hierarchy": (tg.perturb.Hierarchy, {"epsilon": 1, "horizon": 100}),
    "Flat": (tg.perturb.Flat, {"epsilon": 1}),
    "NoisyMax": (tg.threshold.NoisyMax, {"epsilon": 1, "bound": 9}),
    "SmoothQuantile": (tg.threshold.SmoothQuantile, {"epsilon": 1, "delta": "1e-9", "bound": 9}),
    "Fixed": (tg.threshold.Fixed, {"value": 9}),
    "tops": (tg.tops, {"epsilon": 1, "bound": 9}),
    "pak": (tg.pak, {"epsilon": 1, "bound": 9}),
    "pak_with_tops_threshold": (tg.pak_with_tops_threshold, {"epsilon": 1, "bound": 9}),
    "pak_with_tops_stream": (tg.pak_with_tops_stream, {"epsilon": 1, "bound": 9}),
    "MovingAverage": (tg.estimate.MovingAverage, {}),
    "Exponential": (tg.estimate.Exponential, {}),
    "Pipeline": (
        tg.Pipeline,
        {"threshold": tg.threshold.Fixed(9), "perturber": tg.perturb.Flat(epsilon=1)},
    ),
}
NOT_POSITIVE = [0, -1, -0.5, "-1/2", "0", float("nan"), float("inf"), -float("inf"), "NaN", "inf"]
NOT_NUMBERS = [True, False, None, "", "one", "1/0", [1], (1,), 1j, range(3), np.bool_(True)]
TAKE_EPSILON = [name for name, (_, good) in GOOD.items() if "epsilon" in good]
TAKE_BOUND = [name for name, (_, good) in GOOD.items() if "bound" in good]


def refused(name: str, **wrong: Any) -> tg.SettingError:
    maker, good = GOOD[name]
    maker(**good)
    with pytest.raises(tg.SettingError) as caught:
        maker(**{**good, **wrong})
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, tg.TidegateError)
    assert str(caught.value).startswith(caught.value.setting)
    return caught.value


@pytest.mark.parametrize("value", NOT_POSITIVE + NOT_NUMBERS, ids=repr)
@pytest.mark.parametrize("name", TAKE_EPSILON)
def test_epsilon(name: str, value: Any) -> None:
    assert refused(name, epsilon=value).setting == "epsilon"


@pytest.mark.parametrize("value", NOT_POSITIVE + NOT_NUMBERS, ids=repr)
@pytest.mark.parametrize("name", TAKE_BOUND)
def test_bound(name: str, value: Any) -> None:
    assert refused(name, bound=value).setting == "bound"


RECENT, FLAT = tg.estimate.Recent(), tg.perturb.Flat(epsilon=1)
WRONG: dict[str, dict[str, list[Any]]] = {
    "Fixed": {
        "value": [0, "x"],
    },
    "Hierarchy": {
        "fanout": [1, 0, -2, 2.5, None],
        "horizon": [0, -1, 10.5, float("inf"), None, True],
        # 3: 16² already covers the horizon of 100
        "skipped": [-1, 3, 0.5],
        "levels": [0, 5],
        "shares": [[], [1, 0], [1, -1], [1, "x"], [1, float("nan")]],
    },
    "Flat": {
        "block": [0],
        "horizon": [0],
    },
    "NoisyMax": {
        "holdout": [0, -5, 1.5],
        "horizon": [0],
        "fanout": [1],
        "scale": [0],
        "step": [0],
        "stream_epsilon": [0],
        "selection": ["best", None],
    },
    "SmoothQuantile": {
        "holdout": [0],
        "delta": [0, 1, 1.5],
        "percentile": [0, 100.5],
        # "1e-30": κ would not be positive
        "failure": [0, 0.5, 0.9, "1e-30"],
        # 50: no smooth sensitivity for so large an ε
        "epsilon": [50],
    },
    "MovingAverage": {
        "window": [0, 1.5],
    },
    "Exponential": {
        "alpha": [0, 1.01, "2"],
    },
    "Pipeline": {
        # 10: above the bound; "1e-16": 9e16 steps do not fit a float
        "resolution": [0, -1, "x", 10, "1e-16"],
        "history": [0, 2.5],
        "threshold": [None, RECENT, FLAT, tg.threshold.Fixed],
        "perturber": [None, "H16c", RECENT, tg.threshold.Fixed(9), tg.perturb.Hierarchy],
        "estimator": [None, "recent", FLAT, tg.threshold.Fixed(9), tg.estimate.Recent],
    },
    "tops": {
        "horizon": [0],
        "holdout": [0],
        "fanout": [1],
        "resolution": [10],
    },
    "pak": {
        "delta": [0, 2],
        "horizon": [0],
    },
}


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [(name, key, one) for name in WRONG for key in WRONG[name] for one in WRONG[name][key]],
    ids=lambda value: value if isinstance(value, str) else repr(value)[:30],
)
def test_each_setting_is_named(name: str, setting: str, value: Any) -> None:
    assert refused(name, **{setting: value}).setting == setting


def test_shares_must_match_the_levels() -> None:
    error = refused("Hierarchy", levels=2, skipped=0, shares=[1, 1, 1])
    assert error.setting == "shares"
    assert "2" in str(error)
    assert tg.perturb.Hierarchy(epsilon=1, horizon=100, skipped=0, shares=[1, 3]).shares == (
        Fraction(1, 4),
        Fraction(3, 4),
    )


def test_a_resolution_that_could_overflow_is_refused_beforehand() -> None:
    error = refused(
        "Pipeline",
        threshold=tg.threshold.Fixed(2**52),
        perturber=tg.perturb.Flat(epsilon="1e-6"),
    )
    assert error.setting == "resolution"
    assert "overflow" in str(error)


def test_an_unknown_stage_is_refused() -> None:
    settings = tg.Pipeline(**GOOD["Pipeline"][1]).settings()
    with pytest.raises(tg.SettingError, match=r"perturb\.Magic"):
        tg.Pipeline.from_settings({**settings, "perturber": {"kind": "perturb.Magic"}})
    with pytest.raises(tg.SettingError, match="os"):
        tg.Pipeline.from_settings({**settings, "estimator": {"kind": "os.system"}})


@pytest.mark.parametrize(
    "tenth",
    [0.1, "0.1", "1/10", "1e-1", ".1", Decimal("0.1"), Fraction(1, 10), np.float64(0.1)],
    ids=repr,
)
def test_a_tenth_is_a_tenth_however_it_is_written(tenth: Any) -> None:
    """As a binary number the float 0.1 is a little more: it would overspend."""
    for name in TAKE_EPSILON:
        maker, good = GOOD[name]
        made = maker(**{**good, "epsilon": tenth})
        assert made.guarantee.epsilon == Fraction(1, 10)
        assert isinstance(made.guarantee.epsilon, Fraction)
        assert made == maker(**{**good, "epsilon": "1/10"})


@pytest.mark.parametrize("whole", [64, 64.0, "64", np.int32(64), np.float64(64), Fraction(64)])
def test_a_whole_number_may_be_written_in_many_ways(whole: Any) -> None:
    stage = tg.perturb.Hierarchy(epsilon=1, horizon=whole)
    assert stage == tg.perturb.Hierarchy(epsilon=1, horizon=64)
    assert type(stage.horizon) is int


# -- snapshots -------------------------------------------------------------------------------------

KEY = bytes(range(32))


def release() -> tg.Release:
    pipeline = tg.tops(epsilon=1, bound=9, horizon=60, holdout=20, fanout=4)
    made = pipeline.start(tg.seeded(1))
    made.push(np.arange(50) % 9)
    return made


def test_the_snapshot_of_another_pipeline_is_refused() -> None:
    other = tg.tops(epsilon=1, bound=9, horizon=61, holdout=20, fanout=4)
    with pytest.raises(tg.SnapshotError, match="other settings"):
        other.resume(release().snapshot())


@pytest.mark.parametrize("key", [None, KEY], ids=["open", "sealed"])
def test_every_flipped_byte_is_noticed(key: bytes | None) -> None:
    made = release()
    good = made.snapshot(key)
    assert made.pipeline.resume(good, key).position == 30
    places = [*range(0, 300, 7), *range(300, len(good), 97), len(good) - 1]
    for place in places:
        bad = bytearray(good)
        bad[place] ^= 1
        with pytest.raises(tg.SnapshotError):
            made.pipeline.resume(bytes(bad), key)


@pytest.mark.parametrize("key", [None, KEY], ids=["open", "sealed"])
def test_every_cut_is_noticed(key: bytes | None) -> None:
    made = release()
    good = made.snapshot(key)
    for length in [0, 1, 8, 12, 13, 40, 200, 300, len(good) // 2, len(good) - 1]:
        with pytest.raises(tg.SnapshotError):
            made.pipeline.resume(good[:length], key)
    with pytest.raises(tg.SnapshotError):
        made.pipeline.resume(good + b"x", key)


def test_keys_are_needed_and_must_be_right() -> None:
    made = release()
    sealed, plain = made.snapshot(KEY), made.snapshot()
    with pytest.raises(tg.SnapshotError, match="sealed"):
        made.pipeline.resume(sealed)
    with pytest.raises(tg.SnapshotError, match="key"):
        made.pipeline.resume(sealed, os.urandom(32))
    with pytest.raises(tg.SnapshotError, match="not sealed"):  # or anyone could plant one
        made.pipeline.resume(plain, KEY)
    for bad in (b"", b"short", bytes(31), bytes(33)):
        with pytest.raises(tg.SettingError, match="key"):
            made.snapshot(bad)
        with pytest.raises(tg.TidegateError, match="key"):
            made.pipeline.resume(sealed, bad)
    assert made.snapshot(KEY) != sealed  # a nonce is never used twice


def test_a_sealed_snapshot_shows_no_state() -> None:
    made = tg.tops(epsilon=1, bound=10**6, horizon=60, holdout=40, resolution=1).start()
    made.push(np.full(30, 123_456))
    raw = np.int64(123_456).tobytes()
    assert raw in made.snapshot()  # the open form is as secret as the data …
    assert raw not in made.snapshot(KEY)


@pytest.mark.parametrize(
    "junk", [b"", b"TIDEGATE", b"hello world, this is not a snapshot", b"\x80\x04K\x01."]
)
def test_what_is_no_snapshot_is_refused(junk: bytes) -> None:
    with pytest.raises(tg.SnapshotError):
        release().pipeline.resume(junk)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("hold_out", ": do you mean holdout?"),
        ("colour", ""),
        ("epsilons", ": do you mean epsilon?"),
    ],
)
def test_unknown_settings_are_named(name: str, hint: str) -> None:
    """A misspelt setting must not read like a fault of Tidegate."""
    for method in (tg.adaptive, tg.tops):
        with pytest.raises(tg.SettingError) as error:
            method(1, 100, **{name: 5})
        assert error.value.setting == name
        assert error.value.problem.startswith(f"is not a setting of {method.__name__}")
        assert error.value.problem.endswith(hint)
