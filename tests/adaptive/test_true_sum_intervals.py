"""Do intervals hold the true sum, what truncation took away included?

On made-up streams that no constant was chosen on (`benchmarks.coverage` measures many more).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace

import numpy as np
import pytest

import tidegate as tg
from tidegate.estimate.mixture.truncated_tail import TruncatedTail
from tidegate.record.segments.leaf_buffers import LeafBuffer
from tidegate.record.threshold_evidence import evidence_aims
from tidegate.run.refinement_run import RefinementRun
from tidegate.stages import NO_AIM, Aim, Recorded

COUNT, BOUND = 4096, 100_000
SEEDS, RANGES = 2, 40
CLASSES = {"short": (4, 64), "middle": (64, 512), "long": (512, 4096)}
Random = np.random.Generator

STREAMS: dict[str, Callable[[Random], np.ndarray]] = {
    "Weibull": lambda r: 40 * r.weibull(0.7, size=COUNT),
    "log-logistic 3": lambda r: 30 * (1 / r.random(COUNT) - 1) ** (1 / 3),
    "gamma, cycle": lambda r: r.gamma(2, 20 + 15 * np.sin(np.arange(COUNT) / 300)),
    "binomial": lambda r: r.binomial(80, 0.3, size=COUNT),
    "half zeros": lambda r: np.where(r.random(COUNT) < 0.5, 0, r.gamma(1.5, 50, size=COUNT)),
    "level up threefold": lambda r: r.gamma(
        1.0, np.where(np.arange(COUNT) < COUNT // 2, 20, 60), size=COUNT
    ),
}


@lru_cache(maxsize=1)
def answers() -> dict[tuple[str, str, str], np.ndarray]:
    """True sum, estimate, low and high of ranges: by stream, class, and when they were asked."""
    found: dict[tuple[str, str, str], list[np.ndarray]] = {}
    for number, (name, draw) in enumerate(STREAMS.items()):
        for seed in range(SEEDS):
            random = np.random.default_rng([seed, number])
            values = np.rint(draw(random))
            release = tg.adaptive(1, BOUND, horizon=COUNT, resolution=1).start(tg.seeded(seed))
            release.push(values)
            before = np.concatenate(([0.0], np.cumsum(values)))
            # The past is estimated once for all ranges of a moment.
            for asked, moment in (
                ("at once", int(random.integers(COUNT // 4, COUNT))),
                ("later", None),
            ):
                for kind, (least, most) in CLASSES.items():
                    size = RANGES if moment is None else RANGES // 4
                    logs = random.uniform(np.log(least), np.log(most), size=size)
                    lengths = np.exp(logs).astype(np.int64)
                    if moment is None:
                        starts = random.integers(0, COUNT - lengths)
                    else:
                        starts = np.maximum(0, moment - lengths)
                    ends = starts + lengths if moment is None else np.full(size, moment)
                    answer = release.queries(starts, ends, as_of=moment)
                    assert not answer.capped
                    truth = before[ends] - before[starts]
                    row = np.stack((truth, answer.estimate, answer.low, answer.high))
                    found.setdefault((name, kind, asked), []).append(row)
    return {cell: np.concatenate(rows, axis=1) for cell, rows in found.items()}


def held(row: np.ndarray, narrower: float = 1.0) -> float:
    """The share of intervals that hold the truth, made this much narrower."""
    truth, estimate, low, high = row
    low, high = estimate + narrower * (low - estimate), estimate + narrower * (high - estimate)
    return float(np.mean((low <= truth) & (truth <= high)))


def shares(narrower: float = 1.0) -> dict[tuple[str, str, str], float]:
    """The same for every cell."""
    return {cell: held(row, narrower) for cell, row in answers().items()}


def check(found: dict[tuple[str, str, str], float]) -> None:
    """98 % in the mean, and 94 % of every class and on every stream: their tails are ordinary."""
    assert np.mean(list(found.values())) >= 0.98, found
    for place, names in ((0, STREAMS), (1, CLASSES), (2, ("at once", "later"))):
        for name in names:
            mean = np.mean([share for cell, share in found.items() if cell[place] == name])
            assert mean >= 0.94, (name, found)


def test_intervals_hold_the_true_sum() -> None:
    check(shares())


def test_narrower_intervals_would_be_seen() -> None:
    """Made 30 % narrower they fall below what is asked of them."""
    with pytest.raises(AssertionError):
        check(shares(0.7))


def test_the_part_of_truncation_grows_with_the_range() -> None:
    """It is a bias: twice the range, twice the error. Noise does not grow like that."""
    release = tg.adaptive(1, BOUND, horizon=COUNT).start(tg.seeded(1))
    release.push(np.rint(STREAMS["Weibull"](np.random.default_rng(1))))
    one, two = release.query(2000, 2900), release.query(2000, 3800)
    assert two.truncation_error > 1.8 * one.truncation_error > 0
    assert two.noise_error < 1.6 * one.noise_error
    assert two.high - two.estimate > 1.3 * (two.estimate - two.low)
    assert one.standard_error == pytest.approx(
        np.sqrt(one.noise_error**2 + one.prediction_error**2 + one.truncation_error**2)
    )
    assert str(one).startswith("sum over [2000, 2900): ")


def test_nothing_is_truncated_at_the_bound() -> None:
    """A threshold that is the bound: the interval is one of noise and prediction alone."""
    release = tg.adaptive(3, 1, horizon=COUNT, resolution=1).start(tg.seeded(2))
    release.push(np.random.default_rng(2).random(COUNT) < 0.5)
    answer = release.query(100, 4000)
    assert answer.threshold == 1
    assert not answer.capped
    assert answer.truncation_error == 0


def test_without_a_rule_only_capped_sums_are_known() -> None:
    """A threshold from outside tells nothing about what lies above it."""
    fixed = tg.Pipeline(
        threshold=tg.threshold.Fixed(60),
        perturber=tg.perturb.AdaptiveTrees(epsilon=1, horizon=COUNT),
        estimator=tg.estimate.Mixture(),
    )
    tops = tg.tops(1, BOUND, horizon=COUNT, holdout=256)
    for pipeline in (fixed, tops):
        release = pipeline.start(tg.seeded(3))
        release.push(np.rint(STREAMS["Weibull"](np.random.default_rng(3))))
        answer = release.query(0, 1000)
        assert answer.capped
        assert answer.truncation_error == 0
        assert str(answer).startswith("sum of capped values over [0, 1000): ")


def test_each_choice_of_a_threshold_saw_its_own_share() -> None:
    """More evidence, fewer values above θ: the first phase has by far the largest share."""
    release = tg.adaptive(1, BOUND, horizon=COUNT).start(tg.seeded(4))
    release.push(np.rint(STREAMS["Weibull"](np.random.default_rng(4))))
    segments = release.record.segments
    found = [aim.share for aim in evidence_aims(segments, None)]
    assert len(found) > 1
    assert found == sorted(found, reverse=True)
    assert found[0] > 2 * found[-1] > 0
    first = segments[0].blocks[0].layout
    paid = 1 - first.cap / float(first.scales[0])  # ε is 1
    seen, wanted = 3 / (paid * first.length), 25 / min(COUNT, 16 * first.length)
    assert found[0] == pytest.approx(np.sqrt(min(seen, 0.25) * min(wanted, 0.25)))
    # Before the second choice nobody could know of it.
    assert evidence_aims(segments, segments[1].start)[1:] == [NO_AIM] * (len(segments) - 1)


def test_a_cap_that_was_kept_has_the_share_of_its_choice() -> None:
    """A warm-up that keeps a full cap chose nothing: the run itself says which ones did."""
    kept, chosen, count = 0, 0, 16_384
    level = np.where(np.arange(count) % 2048 > 1900, 100, 50)
    for seed in range(6):
        random = np.random.default_rng(seed)
        release = tg.adaptive(1, 1000, horizon=count, resolution="0.1").start(tg.seeded(seed))
        run, evidence = release._run, {}
        assert isinstance(run, RefinementRun)
        for piece in np.split(random.poisson(level), count // 16):
            release.push(piece)
            if not release.warming:
                evidence[run.number] = run.evidence
        segments = [one for one in release.record.segments if one.measured]
        found = evidence_aims(segments, None)
        for number in range(1, len(segments)):
            first = segments[number].blocks[0]
            if not {number - 1, number} <= evidence.keys() or first.layout.nodes != (1,):
                continue  # no warm-up, or one that ended between two looks
            same = evidence[number] == evidence[number - 1]
            assert (found[number].share == found[number - 1].share) is same
            kept, chosen = kept + same, chosen + (not same)
    assert kept >= 3
    assert chosen >= 3


def test_a_full_cap_is_open_upwards() -> None:
    """A level that has filled its cap may lie anywhere; what followed it says where."""
    known = SimpleNamespace(edges=np.array([0, 10, 20]), sums=np.array([0.0, 2.0, 11.9]))
    trees = tg.perturb.AdaptiveTrees(epsilon=1, horizon=320)
    recorded = Recorded(trees, 100, 10_000, 1.0, 0, 20, LeafBuffer(block=1, most=None), [])
    places = (np.array([0, 10]), np.array([0, 1])), (np.array([10, 20]), np.array([1, 2]))
    tail = TruncatedTail(known, recorded, [], 0.005, Aim(0.02)).between(places, 100.0)
    calm, full = tail.upper / tail.most
    assert calm < 0.01
    assert full > 0.9
    aim = Aim(0.02, following=300.0)  # units: three caps
    later = TruncatedTail(known, recorded, [], 0.005, aim).between(places, 100.0)
    assert later.expected[1] == pytest.approx(10 * (300 - 99))
    assert later.upper[1] == pytest.approx(3 * later.expected[1])
    assert later.upper[0] == tail.upper[0]


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_calm_level_near_its_cap_hid_nothing_before_it_grew(seed: int) -> None:
    """600 values of 100, then 600 of 400: what was cut is the first leaf after the step."""
    values = np.repeat([100.0, 400.0], 600)
    release = tg.adaptive(epsilon=30, bound=1000, horizon=1200).start(tg.seeded(seed))
    release.push(values)
    found = release.query(0, 1200)
    assert found.low < values.sum() < found.high
    assert found.estimate == pytest.approx(values.sum(), rel=0.02)


# -- values below 0 ------------------------------------------------------------------------------


def _signed_tail(level: float, below: int, *, depth: int = 10_000, ceiling: int = 10_000):
    """What truncation took from 20 values of this level, in ends −`below` and 100."""
    threshold, edges = 100 + below, np.array([0, 10, 20])
    known = SimpleNamespace(edges=edges, sums=edges * level / threshold)
    trees = tg.perturb.AdaptiveTrees(epsilon=1, horizon=320)
    leaves = LeafBuffer(block=1, most=None)
    facts = trees, threshold, ceiling, 1.0, 0, 20, leaves, []
    cap = SimpleNamespace(start=0, layout=SimpleNamespace(cap=threshold))
    recorded = Recorded(*facts, below, depth)
    tail = TruncatedTail(known, recorded, [cap], 0.005, Aim(0.01))
    places = (np.array([0]), np.array([0])), (np.array([20]), np.array([1]))
    return tail.between(places, float(threshold))


def test_an_end_at_its_bound_cuts_nothing() -> None:
    found = _signed_tail(10.0, 50, depth=50)
    assert found.fallen == found.lower == 0
    assert found.upper > 0
    found = _signed_tail(10.0, 50, ceiling=100)
    assert found.expected == found.upper == 0
    assert found.lower > 0


def test_ends_follow_the_scale_the_shape_and_the_side_of_the_level() -> None:
    """In values × share × scale: 3 on the level's side, 1.2 on the other, 1 more if narrowed."""
    one = 20 * 0.01 * 100
    wide = _signed_tail(10.0, 100)
    assert (wide.upper / one, wide.lower / one) == (pytest.approx(3.0), pytest.approx(1.2))
    other = _signed_tail(-10.0, 100)
    assert (other.upper / one, other.lower / one) == (pytest.approx(1.2), pytest.approx(3.0))
    narrowed = _signed_tail(10.0, 13)
    assert (narrowed.upper / one, narrowed.lower / one) == (pytest.approx(3), pytest.approx(2.2))
    # Values crowd around a level that is half of the scale: hardly any tail.
    assert _signed_tail(50.0, 100).upper == pytest.approx(0.2 * wide.upper)


def test_signed_amounts_of_a_short_file_have_an_interval_of_use() -> None:
    """6,000 amounts with refunds, ε = 1, nobody said how many: ± 10 % of the sum, it was 14 %."""
    held, halves = 0, []
    for seed in range(6):
        random = np.random.default_rng(seed)
        amounts = random.lognormal(np.log(14) - 0.32, 0.8, 6000)
        values = np.round(np.where(random.random(6000) < 0.03, -amounts, amounts), 2)
        release = tg.adaptive(1, 500, lower=-500).start(tg.seeded(seed))
        release.push(values)
        found = release.query()
        held += found.low <= values.sum() <= found.high
        halves.append((found.high - found.low) / 2 / values.sum())
    assert held >= 5
    assert np.median(halves) < 0.12
