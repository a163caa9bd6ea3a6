"""Late looks: after the last window, whether values lie far above θ that no choice has seen."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.adaptive.test_refinement_schedule import ramp
from tests.laws.catalogue import alike_when_split, bits
from tests.privacy.measured_blocks import charge_blocks
from tests.privacy.test_tail_quantile import law
from tidegate.durable import DurableRelease
from tidegate.errors import SettingError
from tidegate.noise import permute_and_flip
from tidegate.ownership import Ownership
from tidegate.randomness import Epoch, Keystream
from tidegate.run import selection_counts
from tidegate.run.earlier_pipelines import earlier_pipelines
from tidegate.run.refinement_run import RefinementRun
from tidegate.run.refinement_schedule import Refinement
from tidegate.run.release import Release
from tidegate.stages import FAR_SHARE
from tidegate.stages.late_looks import LOOK_SHARES, is_look, look_share, looks_pay
from tidegate.threshold import TailQuantile, far_values
from tidegate.threshold.far_values import far_values_found, far_values_scores
from tidegate.threshold.tail_quantile import PARTS

PIPELINE = tg.adaptive(30, 10**5, horizon=600)


def scales(count: int, share: float, seed: int, times: float = 100) -> np.ndarray:
    """This share of the values is so many times as large as the others."""
    random = np.random.default_rng(seed)
    return random.gamma(2, 5, count) * np.where(random.random(count) < share, times, 1)


def late(count: int, large: bool) -> np.ndarray:
    """About 10; every fortieth after a third of the horizon may be large: no window has seen it."""
    values = np.random.default_rng(1).integers(8, 13, count)
    values[200::40] *= 200 if large else 1
    return values


def shares(release: tg.Release | DurableRelease) -> list[tuple[int, Fraction]]:
    """Where each block begins, and the part of ε that its values pay for a choice, or a look."""
    found = []
    for segment in release.record.segments:
        for block in segment.blocks:
            trees = segment.method.budgets
            assert trees is not None
            facts = block.layout.length, segment.threshold, segment.method.ceiling
            found.append((block.start, 1 - abs(trees.part_of(block.choice, *facts))))
    return found


def test_public_settings_decide_whether_there_is_one() -> None:
    assert looks_pay(Fraction(1, 2), 17_000)
    assert not looks_pay(Fraction(1, 2), 16_999)
    assert not looks_pay(Fraction(1), 2**19)  # long streams have other late choices
    for least, share in LOOK_SHARES:  # a hundredth of half of the values is seen
        assert 5 <= share * least / 200 <= 9
        assert look_share(Fraction(1), least) == share
    assert PIPELINE.reselect == Refinement(looks=True)
    assert PIPELINE.guarantee.epsilon == 30
    off = replace(PIPELINE, reselect=Refinement())
    assert "looks" not in off.settings()["reselect"]
    assert tg.adaptive(1, 100, horizon=4096).reselect == Refinement()
    assert tg.adaptive(30, 100, lower=-1, horizon=600).reselect == Refinement()
    with pytest.raises(SettingError, match="values from 0 on"):
        tg.adaptive(30, 100, lower=-1, horizon=600, resolution=1).from_settings(
            {
                **tg.adaptive(30, 100, lower=-1, horizon=600).settings(),
                "reselect": Refinement(looks=True).settings(),
            }
        )


def test_it_pays_little_from_the_last_window_on() -> None:
    release = PIPELINE.start(tg.seeded(3))
    release.push(late(600, large=False))
    share = look_share(Fraction(30), 600)
    looking = [start for start, paid in shares(release) if paid == share]
    assert is_look(share)
    assert looking == sorted(looking)
    assert looking[0] < 600 / 3 < 600 * 3 / 4 - 40 < looking[-1] < 600 * 3 / 4
    assert {paid for start, paid in shares(release) if start > looking[-1]} == {0}
    assert release.phases[-1].start < looking[1]  # nothing was found: no phase begins
    # The bound is near: nothing can lie far above θ.
    near = tg.adaptive(30, 40, horizon=600).start(tg.seeded(3))
    near.push(late(600, large=False))
    assert share not in [paid for _, paid in shares(near)]


def losses(epsilon: Fraction, times: float) -> list[float]:
    """Of the bit, over counts of values that differ in one value, by all 256ths of it or some."""
    found = []
    laws = {
        above: law(far_values_scores(above, epsilon), PARTS, float(epsilon) * times)
        for above in range(0, 12 * PARTS, PARTS // 4)
    }
    for above, one in laws.items():
        for moved in range(PARTS // 4, PARTS + 1, PARTS // 4):
            if above + moved in laws:
                pairs = zip(one, laws[above + moved], strict=True)
                found += [abs(math.log(a / b)) for a, b in pairs]
    return found


@pytest.mark.parametrize("epsilon", ["1/2", "1", "3"])
def test_the_bit_loses_at_most_epsilon(epsilon: str) -> None:
    budget = Fraction(epsilon)
    assert 0.8 * budget < max(losses(budget, 1.0)) <= budget * Fraction(10**9 + 1, 10**9)
    assert max(losses(budget, 1.3)) > budget  # a rate that is 30 % too high


@pytest.mark.parametrize(("times", "fits"), [(1, True), (0.7, False), (1.3, False)])
def test_the_bit_has_the_law_that_it_claims(times: float, fits: bool) -> None:
    """Of 3,000 bits, with so many values that 16 in 100 say yes: a standard error is 0.7."""
    epsilon, draws = Fraction(1, 4), 3000
    above = round((4 - 1.15) / float(epsilon) * PARTS)
    expected = law(far_values_scores(above, epsilon), PARTS, float(epsilon) * times)[1]
    epoch = tg.seeded(4).new_epoch()
    streams = [epoch.keystream("look", number.to_bytes(4, "big")) for number in range(draws)]
    said = sum(far_values_found(above, epsilon, one) for one in streams) / draws
    assert (abs(said - expected) < 4 * math.sqrt(0.16 * 0.84 / draws)) == fits
    rate = epsilon / PARTS
    alike = [permute_and_flip(one.at(), far_values_scores(above, epsilon), rate) for one in streams]
    assert said == sum(alike) / draws


@pytest.mark.parametrize("large", [False, True])
def test_no_value_pays_more_than_epsilon(monkeypatch: pytest.MonkeyPatch, large: bool) -> None:
    """Trees, choices, and the bit of a look; where something was found, and where not."""
    values, release = late(600, large), PIPELINE.start(tg.seeded(5))
    paid, read = [Fraction(0)] * values.size, []
    choose, find = TailQuantile.choose_from, far_values.far_values_found

    def choose_from(stage: TailQuantile, *given: Any, **public: Any) -> int:
        read.append((release.position, stage.holdout, stage.epsilon))
        return choose(stage, *given, **public)

    def found_far(above: int, epsilon: Fraction, *given: Any) -> bool:
        run = release._run
        assert isinstance(run, RefinementRun)
        window = run.open_blocks.window
        assert window is not None
        read.append((release.position, window.values, epsilon))
        return find(above, epsilon, *given)

    monkeypatch.setattr(TailQuantile, "choose_from", choose_from)
    monkeypatch.setattr(selection_counts, "far_values_found", found_far)
    release.push(values)
    monkeypatch.undo()
    budgets = {epsilon / 30 for _, _, epsilon in read}
    assert look_share(Fraction(30), 600) in budgets
    assert (FAR_SHARE in budgets) == large
    for end, count, epsilon in read:
        for at in range(end - count, end):
            paid[at] += epsilon
    charge_blocks(paid, release.record)
    assert max(paid) <= 30 == PIPELINE.guarantee.epsilon
    assert sum(one > 30 * (1 - Fraction(1, 10**5)) for one in paid) > 0.7 * len(paid)


def test_one_value_in_a_hundred_is_found_and_ordinary_ones_are_not() -> None:
    """35,040 values at ε = 1: 23 of 24 intervals hold; without looks 2, and they did not say so."""
    found: list[bool] = []
    held: list[bool] = []
    without: list[bool] = []
    for seed in range(8):
        values = scales(35_040, 0.01, seed)
        pipeline = tg.adaptive(1, 100_000, horizon=values.size)
        off = replace(pipeline, reselect=Refinement())
        for one, into in ((pipeline, held), (off, without)):
            release = one.start(tg.seeded(seed))
            release.push(values)
            answer = release.query()
            into.append(answer.low <= values.sum() <= answer.high)
            parts = release.queries([0, 9_000, 30_000], [9_000, 30_000, 35_040])
            assert parts.estimate.sum() == pytest.approx(answer.estimate)
            if one is pipeline:
                found.append(FAR_SHARE in [paid for _, paid in shares(release)])
        ordinary = pipeline.start(tg.seeded(seed))
        ordinary.push(scales(35_040, 0, seed))
        assert FAR_SHARE not in [paid for _, paid in shares(ordinary)]
        assert not ordinary.query().blind
    assert sum(found) >= 5
    assert sum(held) >= 6
    assert sum(without) <= 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("large", [False, True])
def test_any_split_and_stops_give_the_same_bits(large: bool, seed: int) -> None:
    release = alike_when_split(PIPELINE, late(1300, large), seed)  # into the third horizon
    assert (FAR_SHARE in [paid for _, paid in shares(release)]) == large


@pytest.mark.parametrize("yes", [False, True])
def test_a_level_that_rises_ends_a_look(monkeypatch: pytest.MonkeyPatch, yes: bool) -> None:
    """Its bit is released then: a window opens anyway, and more of ε chooses if it says yes."""
    ends: list[int] = []

    def found_far(counts: Any, theta: int, keystream: Any) -> bool:
        ends.append(release.position)
        return yes

    monkeypatch.setattr(selection_counts.SelectionCounts, "found_far", found_far)
    release = tg.adaptive(4, 10_000, horizon=4096).start(tg.seeded(1))
    release.push(ramp())
    assert ends
    assert ends[0] < 4096 * 3 / 4 - 256
    assert dict(shares(release))[ends[0]] == (FAR_SHARE if yes else Fraction(1, 4))


@pytest.mark.parametrize("large", [False, True])
def test_no_key_serves_twice(monkeypatch: pytest.MonkeyPatch, large: bool) -> None:
    """Blocks of one phase have other keys after a look than in it: their noise is another one."""
    used, original = [], Epoch.keystream

    def keystream(epoch: Epoch, purpose: str, settings_digest: bytes) -> Keystream:
        used.append((epoch.id, purpose, settings_digest))
        return original(epoch, purpose, settings_digest)

    monkeypatch.setattr(Epoch, "keystream", keystream)
    release = PIPELINE.start(tg.seeded(5))
    release.push(late(1300, large))
    purposes = [purpose for _, purpose, _ in used]
    assert len(used) == len(set(used))
    assert "look" in purposes
    assert large or purposes.count("perturb") == len(release.phases) + 1


def test_states_without_looks_go_on_without(tmp_path: Any) -> None:
    (before, coarse) = earlier_pipelines(PIPELINE)
    assert before.settings() == {**PIPELINE.settings(), "reselect": Refinement().settings()}
    assert before.guarantee == PIPELINE.guarantee
    assert coarse.reselect == Refinement()
    values = late(700, large=True)
    release = before.start(tg.seeded(4))
    release.push(values[:400])
    ours = PIPELINE.resume(release.snapshot())
    assert ours.pipeline == before
    assert bits(ours.push(values[400:])) == bits(release.push(values[400:]))
    with DurableRelease.open(tmp_path / "state", before) as state:
        state.push(values[:400])
    with DurableRelease.open(tmp_path / "state", PIPELINE) as state:
        state.push(values[400:])
        assert state.pipeline == before


def test_a_durable_release_goes_on_in_a_look_and_after_it(tmp_path: Any) -> None:
    values, places = late(700, large=False), [0, 230, 400, 495, 560, 700]
    looked = []
    for begin, end in pairwise(places):
        with DurableRelease.open(tmp_path / "state", PIPELINE) as state:
            state.push(values[begin:end])
            looked.append(sum(paid == look_share(Fraction(30), 600) for _, paid in shares(state)))
            assert len(state._charging._ledger.charges()) == 1
            assert state.record.end == end
    assert 0 < looked[0] < looked[1] <= looked[2] == looked[3]


@pytest.mark.parametrize("record", [False, True])
def test_keys_in_arrays_look_as_single_releases_do(record: bool) -> None:
    """In lock-step, some with large values and some without; stops within looks and after them."""
    count, rows = 6, 640
    specification = tg.keyed(PIPELINE, keys=range(count))
    columns = specification.start(tg.seeded(5), record=record)
    values = np.array([late(rows, large=key % 2 > 0) + key for key in range(count)])
    epoch, found = tg.seeded(5).new_epoch(), []
    for begin, end in pairwise([0, 230, 231, 430, 500, 530, rows]):
        pushed = columns.push(
            np.tile(np.arange(count), end - begin), values[:, begin:end].T.ravel()
        )
        found.append(pushed.values.reshape(-1, count))
        columns = specification.resume(columns.snapshot())
    both = set()
    for key, phases in ((int(name), phases) for name, _, phases in columns.released_keys()):
        alone = Release(PIPELINE, epoch.of_key(str(key)), ownership=Ownership())
        expected = alone.push_rows(values[key])
        assert bits(np.concatenate(found)[:, key].copy()) == bits(expected.values)
        assert phases == alone.phases
        both.add(FAR_SHARE in [paid for _, paid in shares(alone)])
        if record:
            assert columns.query(10, 600, key=str(key)) == alone.query(10, 600)
    assert both == {False, True}
