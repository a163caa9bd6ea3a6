"""What `benchmarks.pegasus_figures` compares PeGaSus with, and its hierarchy."""

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from benchmarks import pegasus_hierarchy as hierarchy
from benchmarks.pegasus_setting import (
    absorbed,
    backward,
    group_windows,
    grouped,
    roc,
    smoothed,
    window_tree,
    windows,
)
from benchmarks.pegasus_streams import PEOPLE, part, people

WIDTH, WINDOWS = 16, 20_000


def ones(number):
    return number.bit_count()


@pytest.mark.parametrize("inside", [0, 1, 5, 8, 15])
def test_a_window_takes_the_fewest_nodes_of_two_trees(inside):
    """Variance: nodes of the beginning of a block and of the end of the one before, by hand."""
    ends = 2 * WIDTH * np.arange(1, WINDOWS) + inside  # no two have a node in common
    values = np.arange(2 * WIDTH * WINDOWS)
    true = windows(values.astype(float), WIDTH, ends)
    epsilon = Fraction(1, 2)
    errors = window_tree(values, WIDTH, epsilon, ends, 1) - true
    nodes = ones(inside) + ones(WIDTH - inside)
    scale = 5 / epsilon  # levels of nodes of 1, 2, 4, 8 and 16 values
    expected = float(2 * scale**2 * nodes)
    assert np.var(errors) == pytest.approx(expected, rel=0.1)
    assert abs(np.mean(errors)) < 4 * np.sqrt(expected / WINDOWS)


def test_windows_share_the_nodes_of_a_release():
    """Two windows that end at the same step of one release have the same answer."""
    values, ends = people(2.0, 3, 512), np.arange(40, 500)
    every = window_tree(values, WIDTH, Fraction(1), ends, 9)
    some = window_tree(values, WIDTH, Fraction(1), ends[::7], 9)
    assert np.array_equal(every[::7], some)


def test_noise_is_that_of_one_person():
    """The scale of a noisy count is 1/ε_p = 1.25/ε, whatever the counts are."""
    for average in PEOPLE.values():
        values = people(average, 5)
        noisy, _ = grouped(values, Fraction(1, 2), Fraction(40), 1)
        assert np.abs(noisy - values).mean() == pytest.approx(2.5, rel=0.03)


def test_the_stage_is_that_of_the_preset():
    """The preset at ε·θ publishes the medians that are compared here, to a thousandth."""
    values, epsilon = people(2.0, 4, 2000), Fraction(1, 2)
    most = int(values.max()) + 1
    medians = smoothed(*grouped(values, epsilon, Fraction(40), 8))["median"]
    settings = {"medians": True, "holdout": 0, "resolution": Fraction(1, 1000)}
    made = tg.pegasus(epsilon * most, most, horizon=1 << 16, **settings)
    released = made.start(tg.seeded(8)).push(values.astype(float))
    spread = [np.abs(one - values).mean() for one in (medians, released)]
    assert spread[0] == pytest.approx(spread[1], rel=0.25)  # other noise, the same law


def test_budget_absorption_has_half_of_epsilon_for_a_number():
    """Of counts that nothing resembles, every one is published, with noise of scale 2/ε."""
    values = np.tile([0, 1000], 4000)
    errors = absorbed(values, Fraction(1), 2) - values
    assert np.abs(errors).mean() == pytest.approx(2, rel=0.05)


def test_windows_of_groups_by_hand():
    """Groups 0–2 and 3–4, windows of 3: closed groups by their last median, the open one so far."""
    running, opens = np.array([1.0, 2.0, 3.0, 10.0, 20.0]), np.array([0, 3])
    found = group_windows(running, opens, 3, np.array([3, 4, 5]))
    assert found.tolist() == [9.0, 3 + 3 + 10.0, 3 + 20 + 20.0]


def test_means_and_curves_by_hand():
    """Means of what there is; one of two ties is a false alarm."""
    assert backward(np.array([2.0, 4, 9]), 2).tolist() == [2, 3, 6.5]
    false, true, area = roc(np.array([3.0, 2, 2, 1]), np.array([True, True, False, False]))
    assert (false.tolist(), true.tolist(), area) == ([0, 0, 0.5, 1], [0, 0.5, 1, 1], 0.875)


def test_a_part_of_a_year_begins_with_a_day():
    """In whole days, another one for every seed."""
    counts = np.arange(20 * 288)
    starts = {int(part(counts, seed, 288)[0]) for seed in range(5)}
    assert len(starts) == 5
    assert all(start % 288 == 0 for start in starts)


@pytest.mark.parametrize("below", [-100.0, 0.5, 100.0])
def test_a_path_of_the_hierarchy_spends_all_shares(below):
    """Down to where a path is pruned, shares are h; below, nothing is measured."""
    levels = [one[:, :400] for one in hierarchy.nodes(True, 1)]
    shares = hierarchy.pruned_shares(levels, 0.1, below, 3)
    leaves = 1 << hierarchy.DEPTH - 1
    paths = [np.repeat(one, leaves // one.shape[0], axis=0) for one in shares]
    total = np.sum(paths, axis=0)
    assert (total == hierarchy.DEPTH).all()
    measured = np.array([one > 0 for one in paths])
    assert (np.diff(measured.astype(int), axis=0) <= 0).all()  # not again below what is pruned
    depths = measured.sum(axis=0)
    assert depths.max() == (1 if below > 1 else hierarchy.DEPTH)
    assert depths.min() == (hierarchy.DEPTH if below < 0 else 1)


def test_a_node_that_is_not_measured_is_zero():
    """Its grouper does not see what it had there."""
    counts = np.full(300, 50)
    shares = np.tile([1, 0, 2], 100)
    found = hierarchy.node(counts, shares, 10.0, 10.0, Fraction(40), (1, 2, 3))
    assert (found[shares == 0] == 0).all()
    assert np.abs(found[shares > 0] - 50).mean() < 0.05
