"""Range sums: what they add up, which ranges are refused, and what the record remembers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tests.depth import examples, in_turn
from tidegate.record.range_queries_and_answers import Answers

PERTURBERS: dict[str, Any] = {
    "H16c": tg.perturb.Hierarchy(epsilon="1/2", horizon=200, skipped=0),
    "H4c blocks": tg.perturb.Hierarchy(epsilon="1/2", horizon=200, fanout=4, skipped=2),
    "H2": tg.perturb.Hierarchy(
        epsilon="1/2", horizon=200, fanout=2, skipped=0, levels=8, consistent=False
    ),
    "H2 blocks": tg.perturb.Hierarchy(
        epsilon="1/2", horizon=200, fanout=2, skipped=3, consistent=False
    ),
    "flat": tg.perturb.Flat(epsilon="1/2", horizon=200),
    "flat blocks": tg.perturb.Flat(epsilon="1/2", horizon=200, block=7),
}
COLUMNS = ("estimate", "noise_error", "prediction_error", "low", "high")


def pipeline(name: str = "H4c blocks", **more: Any) -> tg.Pipeline:
    return tg.Pipeline(threshold=tg.threshold.Fixed(9), perturber=PERTURBERS[name], **more)


def released(
    name: str = "H4c blocks", count: int = 733, **more: Any
) -> tuple[tg.Release, np.ndarray]:
    release = pipeline(name, **more).start(tg.seeded(5))
    return release, release.push(np.random.default_rng(1).integers(0, 12, size=count))


def online(release: tg.Release, positions: np.ndarray) -> np.ndarray:
    """The sums of all that is still known before these positions, as answered there and then."""
    start = release.record.start
    found = [release.query(start, end, as_of=end).estimate for end in positions.tolist()]
    return np.array(found)


@pytest.mark.parametrize(
    "estimator", [tg.estimate.Recent(), tg.estimate.Mean(), tg.estimate.Unsmoothed()]
)
@pytest.mark.parametrize("resolution", in_turn(["1", "1/8", "1/10"], 0))
@pytest.mark.parametrize("name", PERTURBERS)
def test_the_estimate_is_the_sum_of_the_released_values(
    name: str, resolution: str, estimator: Any
) -> None:
    """Of whole blocks always; of parts of a block as of then, when they were predictions."""
    release, out = released(name, resolution=resolution, estimator=estimator)
    block = PERTURBERS[name].block
    ends = np.random.default_rng(3).integers(0, out.size // block + 1, size=(2, 300)) * block
    starts, ends = ends.min(axis=0), ends.max(axis=0)
    running = np.concatenate(([0.0], np.cumsum(out)))
    found = release.queries(starts, ends)
    np.testing.assert_allclose(found.estimate, running[ends] - running[starts], rtol=0, atol=1e-6)
    assert np.all(found.low <= found.estimate)
    assert np.all(found.estimate <= found.high)
    assert found.threshold == 9
    ends = np.arange(0, out.size + 1, 19)
    np.testing.assert_allclose(online(release, ends), running[ends], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", PERTURBERS)
def test_many_at_once_is_one_by_one(name: str) -> None:
    release, _ = released(name)
    ends = np.random.default_rng(3).integers(0, 734, size=(2, 50))
    starts, ends = ends.min(axis=0), ends.max(axis=0)
    many = release.queries(starts, ends, confidence=0.8)
    assert len(many) == 50
    for index, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        one = release.query(start, end, confidence=0.8)
        assert (one.start, one.end, one.confidence) == (start, end, 0.8)
        for column in COLUMNS:
            assert getattr(one, column) == getattr(many, column)[index]
        assert one.standard_error == pytest.approx(many.standard_error[index], rel=1e-12)
        assert many[index] == one


@pytest.mark.parametrize("epsilon", ["1/2", "1/10000"])
@pytest.mark.parametrize("name", PERTURBERS)
def test_an_empty_range_is_nothing_for_sure(name: str, epsilon: str) -> None:
    """Also where the noise is huge: its variance must not overflow a quotient."""
    stage = replace(PERTURBERS[name], epsilon=epsilon)
    release = tg.Pipeline(threshold=tg.threshold.Fixed(9), perturber=stage).start(tg.seeded(5))
    release.push(np.ones(500))
    for at in (0, 1, 16, 17, 200, 499, 500):
        answer = release.query(at, at)
        for column in COLUMNS:
            assert getattr(answer, column) == 0
    inside = release.query(17, 19)
    assert np.isfinite(inside.low)
    nothing = release.queries([], [])
    assert len(nothing) == 0
    assert nothing.estimate.size == 0


def test_ranges_are_half_open_and_add_up() -> None:
    release, out = released("H16c")
    assert release.query(3, 4).estimate == out[3]
    assert release.query(0, 733).estimate == pytest.approx(out.sum())
    left, right = release.query(0, 300).estimate, release.query(300, 733).estimate
    assert left + right == pytest.approx(out.sum())


@pytest.mark.parametrize("name", PERTURBERS)
def test_the_noise_error_is_exact_and_the_interval_follows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Answers, "within_bounds", lambda answers, _: answers)
    release, _ = released(name)
    block = PERTURBERS[name].block
    starts, ends = np.array([0, 0, 7 * block]), np.array([block, 20 * block, 11 * block])
    law = PERTURBERS[name].noise_law(9)
    answer = release.queries(starts, ends)
    expected = np.sqrt(law.range_variance(starts // block, ends // block))
    np.testing.assert_allclose(answer.noise_error, expected, rtol=1e-12)
    np.testing.assert_array_equal(answer.prediction_error, 0)
    np.testing.assert_allclose(answer.standard_error, expected, rtol=1e-12)
    half = (answer.high - answer.low) / 2
    # Between the normal quantile (1.960) and the Laplace one, ln 20/√2 = 2.118 standard deviations.
    assert np.all(half >= 1.9599 * expected)
    assert np.all(half <= 2.119 * expected)
    wider = release.queries(starts, ends, confidence=0.999)
    assert np.all(wider.high > answer.high)


def test_a_cut_block_adds_prediction_error() -> None:
    release, _ = released("H4c blocks")
    whole, cut = release.query(160, 320), release.query(160, 325, as_of=325)
    assert whole.prediction_error == 0
    assert cut.prediction_error > 0
    assert cut.noise_error == whole.noise_error
    assert cut.standard_error == pytest.approx(np.hypot(cut.noise_error, cut.prediction_error))
    inside = release.query(161, 163, as_of=165)
    assert inside.noise_error == 0
    assert inside.prediction_error > 0


def test_an_answer_reads_well() -> None:
    release, _ = released("H16c")
    text = str(release.query(0, 100))
    assert "[0, 100)" in text
    assert "95%" in text
    assert text.startswith("sum of capped values over [0, 100): ")
    assert text.endswith("values were capped at 9, and below 0 at 0")


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (5, 4, "ends before it starts"),
        (0, 734, "beyond the 733 values"),
        (733, 734, "beyond the 733 values"),
        (-1, 5, "-1"),
        (-5, -1, "-5"),
        (0, -1, "ends before it starts"),
        (10**12, 10**12 + 1, "beyond"),
    ],
)
def test_impossible_ranges_are_refused(start: int, end: int, message: str) -> None:
    release, _ = released()
    with pytest.raises(tg.QueryError, match=message):
        release.query(start, end)
    with pytest.raises(tg.QueryError, match=message):
        release.queries([0, start], [1, end])


@pytest.mark.parametrize(
    ("starts", "ends"),
    [
        ([0.0], [1]),
        ([0], [1.5]),
        ([None], [1]),
        (["0"], [1]),
        ([True], [5]),
        ([[0]], [[1]]),
        ([0, 1], [2]),
        ([0], [2**64]),
        ([0], [np.uint64(2**64 - 1)]),
        ([float("nan")], [3]),
    ],
)
def test_what_is_no_position_is_refused(starts: Any, ends: Any) -> None:
    release, _ = released()
    with pytest.raises(tg.QueryError):
        release.queries(starts, ends)


def test_numpy_integers_are_positions() -> None:
    release, _ = released()
    expected = release.query(3, 90)
    assert release.query(np.int32(3), np.uint64(90)) == expected
    assert release.queries(np.array([3], dtype=np.uint8), np.array([90]))[0] == expected
    assert release.queries((3,), range(90, 91))[0] == expected


def test_nothing_can_be_asked_during_the_hold_out() -> None:
    release = tg.tops(epsilon=1, bound=9, horizon=100, holdout=50).start(tg.seeded(1))
    release.push([1] * 20)
    for ask in (
        lambda: release.query(0, 0),
        lambda: release.queries([0], [0]),
        lambda: release.record,
    ):
        with pytest.raises(tg.TidegateError, match=r"hold-out needs 30 more"):
            ask()
    release.push([1] * 30)
    assert release.query(0, 0).estimate == 0
    with pytest.raises(tg.QueryError, match="beyond the 0 values"):
        release.query(0, 1)


@pytest.mark.parametrize("confidence", [0, 1, -0.1, 1.5, float("nan"), 95])
def test_confidence_lies_between_0_and_1(confidence: float) -> None:
    release, _ = released()
    with pytest.raises(tg.SettingError, match="confidence"):
        release.query(0, 5, confidence=confidence)


@pytest.mark.parametrize("single", [False, True], ids=["arrays", "single"])
@pytest.mark.parametrize("name", PERTURBERS)
def test_old_ranges_are_forgotten_and_recent_ones_stay_right(name: str, single: bool) -> None:
    """Against what was published: `history` is a setting, hence part of the noise's identity."""
    stage = PERTURBERS[name]
    values = np.random.default_rng(1).integers(0, 12, size=2345)
    release = pipeline(name, history=500).start(tg.seeded(5))
    out = (
        np.array([release.push(value) for value in values.tolist()])
        if single
        else np.concatenate([release.push(part) for part in np.array_split(values, 13)])
    )
    start = release.record.start
    assert 2345 - 500 - 3 * stage.block <= start <= 2345 - 500
    ends = np.random.default_rng(3).integers(start, 2346, size=(2, 200))
    starts, ends = ends.min(axis=0), ends.max(axis=0)
    running = np.concatenate(([0.0], np.cumsum(out)))
    then = online(release, ends[:40])
    np.testing.assert_allclose(then, running[ends[:40]] - running[start], atol=1e-6)
    assert start % stage.block == 0
    starts, ends = (edge // stage.block * stage.block for edge in (starts, ends))
    found = release.queries(starts, ends)
    np.testing.assert_allclose(found.estimate, running[ends] - running[starts], atol=1e-6)
    law = stage.noise_law(9)
    expected = law.range_variance(starts // stage.block, ends // stage.block)
    np.testing.assert_allclose(found.noise_error, np.sqrt(expected), rtol=1e-9)
    with pytest.raises(tg.QueryError, match=r"older than the record.*`history`"):
        release.query(start - 1, 2345)
    with pytest.raises(tg.QueryError, match=f"begins at {start}"):
        release.query(0, 1)


def test_the_default_history_is_sixteen_horizons() -> None:
    release = pipeline("H16c").start(tg.seeded(5))
    release.push(np.zeros(200 * 40))
    assert release.position - release.record.start >= 200 * 16
    assert release.position - release.record.start <= 200 * 16 + 3


@settings(max_examples=examples(30))
@given(
    st.sampled_from(list(PERTURBERS)),
    st.integers(1, 300),
    st.lists(st.integers(0, 400), min_size=1, max_size=8),
)
def test_the_ring_of_any_size_answers_right(name: str, history: int, pushes: list[int]) -> None:
    release = pipeline(name, history=history).start(tg.seeded(5))
    random = np.random.default_rng(0)
    out = np.concatenate([release.push(random.integers(0, 12, size=size)) for size in pushes])
    start, end = release.record.start, release.record.end
    assert end == out.size == release.position
    assert end - start >= min(history, end)
    running = np.concatenate(([0.0], np.cumsum(out)))
    where = np.arange(start, end + 1, PERTURBERS[name].block)
    found = release.queries(where, np.full(where.size, end))
    np.testing.assert_allclose(found.estimate, running[end] - running[where], atol=1e-6)
    some = np.arange(start, end + 1, 37)
    np.testing.assert_allclose(online(release, some), running[some] - running[start], atol=1e-6)
