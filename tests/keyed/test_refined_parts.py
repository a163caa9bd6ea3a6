"""Parts of refined columns against what single streams compute, and that raw values do not stay."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tidegate.estimate.mixture.outgrown_cap import SURE, CapWatch, outgrown_cap_rows
from tidegate.keyed.raw_values_of_many_keys import HeldRawValues
from tidegate.keyed.refined_array_engine import RefinedArrayEngine
from tidegate.keyed.window_counts_of_many_keys import TwoSidedWindowCounts, WindowCounts
from tidegate.lattice import Lattice
from tidegate.run.selection_counts import SelectionCounts
from tidegate.tables.repeated_items import RepeatedItems
from tidegate.threshold import TailQuantile
from tidegate.threshold.tail_quantile import RATIOS


@given(st.integers(1, 1 << 40), st.sampled_from(RATIOS), st.data())
def test_counts_of_windows_are_those_of_the_choice(
    top: int, ratio: tuple[int, str], data: st.DataObject
) -> None:
    """Value by value or together, of keys side by side: `TailQuantile.above`, in integers."""
    stage = TailQuantile(epsilon=1, bound=top, holdout=max(1, ratio[0]))
    lattice = Lattice(Fraction(top), Fraction(1))
    grid = stage.candidates(lattice)
    near = st.sampled_from(grid.tolist()).flatmap(
        lambda step: st.integers(max(0, step - 2), min(top, step + step // 12 + 2))
    )
    columns = data.draw(st.lists(st.lists(st.integers(0, top) | near), min_size=2, max_size=2))
    counts = WindowCounts(lattice)
    counts.grow(3)
    for code, values in zip((0, 2), columns, strict=True):
        empty = {"taken": 0, "counts": np.zeros(grid.size, dtype=np.int64)}
        counts.begin(code, 100, grid, empty)
        half = len(values) // 2
        for part in (values[:half], *([value] for value in values[half:])):
            counts.add(np.array([code]), np.array([len(part)]), np.array(part, dtype=np.int64))
    for code, values in zip((0, 2), columns, strict=True):
        expected = stage.above(np.array(values, dtype=np.int64), lattice)
        assert counts.counts(code).tolist() == expected.tolist()
        assert counts.taken[code] == len(values)
        counts.wipe(code)
    assert not counts._parts.any()
    assert not counts._whole.any()


@given(st.integers(1, 1 << 40), st.integers(1, 1 << 40), st.sampled_from(RATIOS), st.data())
def test_counts_of_two_sided_windows_are_those_of_the_choice(
    top: int, bottom: int, ratio: tuple[int, str], data: st.DataObject
) -> None:
    """Of sizes, and of what each shape of each scale would cut; stopped and continued."""
    lattice = Lattice(Fraction(top), Fraction(1), Fraction(-bottom))
    stage = TailQuantile(epsilon=1, bound=max(top, bottom), holdout=max(1, ratio[0]))
    alone = SelectionCounts(stage, Fraction(1, 2), lattice, Fraction(1, 8))
    grid = stage.candidates(lattice.scale)
    near = st.sampled_from(alone._scales).flatmap(
        lambda scale: st.sampled_from([(sign, each) for sign in (1, -1) for each in (1, 3, 8)]).map(
            lambda one: one[0] * -(-scale * one[1] // 8)
        )
    )
    moved = st.tuples(near, st.integers(-1, 1)).map(sum)
    values = data.draw(st.lists(st.integers(-bottom, top) | moved))
    known, counts = alone.state(), TwoSidedWindowCounts(lattice)
    counts.grow(2)
    counts.begin_two_sided(1, 100, grid, known, stage.extrapolation)
    half = len(values) // 2
    for number, part in enumerate((values[:half], values[half:])):
        units = np.array(part, dtype=np.int64)
        alone.add(units)
        counts.add(np.array([1]), np.array([units.size]), units)
        if not number:  # go on from a state of all keys, and from that of the one
            state, counts = counts.state(0, 2), TwoSidedWindowCounts(lattice)
            counts.grow(2)
            counts.restore(np.arange(2), state)
            known = {**alone.state(), "outside": counts.outside(1), "counts": counts.counts(1)}
            counts.begin_two_sided(1, 100, grid, known, stage.extrapolation)
    assert counts.outside(1).tolist() == alone.state()["outside"].tolist()
    assert counts.counts(1).tolist() == alone.state()["counts"].tolist()
    counts.wipe(1)
    assert not counts._cut.any()


def test_the_length_of_a_two_sided_state_shows_nothing() -> None:
    """States that differ in values of open leaves and windows only."""
    specification = tg.keyed(tg.adaptive(2, 100, lower=-100, horizon=4000), keys=range(4))
    lengths, states = set(), set()
    for value in (-100, -3, 0, 77):
        release = specification.start(tg.seeded(3), record=False)
        release.push(np.tile(np.arange(4), 260), np.tile(np.linspace(-20, 40, 260), 4))
        opened = release._engine._columns.windows.size[:4] > 0
        assert opened.all()
        rows = release.push(np.arange(4), np.full(4, value))
        assert np.array_equal(rows.values, rows.levels)  # no cell has ended: nothing is released
        states.add(release.snapshot())
        lengths.add(len(release.snapshot(bytes(32))))
    assert len(states) == 4
    assert len(lengths) == 1


@given(
    st.floats(0, 1.5), st.integers(1, 10**6), st.floats(0, 10**6), st.floats(0.01, 10), st.data()
)
def test_full_caps_of_many_are_those_of_one(
    home: float, threshold: int, fair: float, doubt: float, data: st.DataObject
) -> None:
    cap = data.draw(st.integers(1, 4 * threshold))
    mean = data.draw(st.floats(-cap, 2 * cap))
    watch = CapWatch()
    watch.home, watch.threshold, watch.fair = home, threshold, fair
    facts = [np.array([one]) for one in (home, fair, threshold, cap, mean)]
    least, full = outgrown_cap_rows(*facts)
    assert bool((full & (mean - doubt * SURE > least))[0]) == watch.full_leaf(mean, doubt, cap)


def test_raw_values_of_warm_ups_do_not_stay() -> None:
    held = HeldRawValues()
    held.grow(3, 40)
    random, seen = np.random.default_rng(0), {0: [], 2: []}
    for size in (1, 7, 30):
        for code in (0, 2):
            values = random.integers(1, 100, size)
            seen[code] += values.tolist()
            held.add(np.array([code]), np.array([size]), values)
            tables = held._table
    assert {code: held.of(code).tolist() for code in seen} == seen
    held.add(np.array([1]), np.array([64]), np.arange(1, 65))  # the table grows
    assert held._table is not tables
    assert not tables.any()
    for code in range(3):
        held.wipe(code)
    assert not held._table.any()


@pytest.mark.parametrize("lower", [0, -100])
def test_secrets_are_wiped_after_choices(lower: int) -> None:
    """Of all keys, once no warm-up and no window is open."""
    pipeline = tg.adaptive(2, 100, lower=lower, horizon=400)
    release = tg.keyed(pipeline, keys=range(8)).start(record=False)
    engine = release._engine
    assert isinstance(engine, RefinedArrayEngine)
    random, columns = np.random.default_rng(1), engine._columns
    for _ in range(300):
        release.push(np.arange(8), random.normal(0, 6, 8) if lower else random.gamma(2, 3, 8))
    assert columns.measuring.all()
    assert not columns.windows.size.any()
    for raw in (columns.held._table, columns.windows._parts, columns.windows._whole):
        assert not raw.any()
    if lower:
        assert not columns.windows._cut.any()


def test_few_keys_are_read_once() -> None:
    joined = RepeatedItems.joined(
        [np.array(["a", None, "a"], dtype=object), RepeatedItems(["b", "a"], np.array([0, 1, 0]))]
    )
    assert joined.tolist() == list(joined) == ["a", None, "a", "b", "a", "b"]
    part = joined[2:5]
    assert part.tolist() == ["a", "b", "a"]
    assert None not in part.distinct
    assert "a" not in repr(part).replace("RepeatedItems", "")
    release = tg.keyed(tg.adaptive(1, 50), keys_are_public=True).start()
    assert release.push(joined[2:4], [1, 2]).keys.tolist() == ["a", "b"]
    with pytest.raises(tg.InputError, match="position 3 "):
        release.push(joined[:2], [1, 2])
    assert list(release.keys) == ["a", "b"]
