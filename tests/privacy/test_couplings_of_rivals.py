"""Privacy of methods that decide as they go, shown on the code itself by couplings.

A run has explicit noise here. For a stream, a neighbour and an output o, the argument of each stage
names by how much noise must be moved for the neighbour to give o too. The move depends on o and the
two streams alone, so it maps noise one to one, and a draw of discrete Laplace noise that moves by k
costs e^(k/scale) at the most. If the code, with noise moved, gives o for the neighbour, and moves
cost at most ε, then P(o) ≤ e^ε·P′(o). Whatever else of a raw value a decision may read, such as a
clamp that is missing or a filter on the wrong side, shows as another output.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.depth import depth
from tidegate.lattice import IntArray
from tidegate.methods.adaptive_gaussian import GaussianRun
from tidegate.methods.budget_absorption import AbsorbedBudget
from tidegate.methods.budget_distribution import DistributedBudget
from tidegate.methods.fast import AdaptiveSampling
from tidegate.methods.pegasus import GroupedValues
from tidegate.methods.rescue_dp import ControlledBudget
from tidegate.methods.sampling import SampledWindow
from tidegate.methods.sparse_partition import OnlinePartition
from tidegate.perturb.adaptive.adaptive_run import AdaptiveRun
from tidegate.perturb.sampled_values import one_by_one

Output = tuple[list[int], ...]
COUNT = 60


def laplace(random: np.random.Generator, scale: int, count: int = COUNT) -> IntArray:
    """Discrete Laplace noise; every third draw is small, so that close decisions come often."""
    parameter = -np.expm1(-1 / scale)
    noise = random.geometric(parameter, count) - random.geometric(parameter, count)
    return np.where(random.random(count) < 1 / 3, noise // 8, noise).astype(np.int64)


def stream(random: np.random.Generator, theta: int) -> IntArray:
    """Mostly 0, or anything, or levels; some values lie above the threshold."""
    kinds = (
        np.where(random.random(COUNT) < 0.2, random.integers(0, theta + 4, COUNT), 0),
        random.integers(0, theta + 4, COUNT),
        np.repeat(random.integers(0, theta + 1, COUNT // 12), 12),
    )
    return kinds[random.integers(3)].astype(np.int64)


def neighbour(random: np.random.Generator, values: IntArray, theta: int, width: int) -> IntArray:
    """The same but for `width` consecutive values, often at the ends of what is possible."""
    start = int(random.integers(0, COUNT - width + 1))
    other = values.copy()
    anything = random.integers(0, theta + 4, width)
    extreme = np.where(values[start : start + width] * 2 > theta, 0, theta)
    other[start : start + width] = extreme if random.random() < 0.6 else anything
    return other


def neighbours(theta: int) -> Iterator[tuple[int, np.random.Generator, IntArray, IntArray]]:
    """Seeds, what draws for them, and two streams that differ in one value."""
    for seed in range(depth(150, 600)):
        random = np.random.default_rng([seed, theta])
        values = stream(random, theta)
        other = neighbour(random, values, theta, 1)
        if not np.array_equal(values, other):
            yield seed, random, values, other


def pushed(run: Any, values: IntArray, random: np.random.Generator) -> Output:
    """What is released, from pushes of any size that end where blocks do."""
    parts, at = [], 0
    while at < COUNT:
        room = sum(run._lengths) - at % sum(run._lengths)
        size = min(int(random.integers(1, 20)), COUNT - at, room)
        noisy = run.push(values[at : at + size])
        parts.append((noisy.sums.tolist(), noisy.spans.tolist(), noisy.marks.tolist()))
        at += size
    return tuple([one for part in parts for one in part[kind]] for kind in range(3))


def begun(stage: Any, theta: int) -> Any:
    keystream = tg.seeded(1).new_epoch().keystream("perturb", b"")
    return stage.start(theta, theta, keystream)


# -- where segments and groups end ------------------------------------------------------------


def partition(
    stage: OnlinePartition, theta: int, values: IntArray, noise: dict[str, IntArray], seed: int
) -> Output:
    run = begun(stage, theta)
    run._noise.at = lambda position: ([noise["tests"], noise["limits"]], position)
    left = iter(noise["sums"].tolist())
    run._sums.next_noises = lambda count: np.array([next(left) for _ in range(count)], np.int64)
    return pushed(run, values, np.random.default_rng(seed))


def partition_moves(
    values: IntArray, other: IntArray, theta: int, found: Output
) -> tuple[int, str, int, int]:
    """Segment, kind, place and size of the move of a test or a limit; `OnlinePartition` says it."""
    (place,) = np.flatnonzero(values != other).tolist()
    change = min(int(other[place]), theta) - min(int(values[place]), theta)
    ends = np.cumsum(found[1])
    segment = int(np.searchsorted(ends, place, side="right"))
    begin = int(ends[segment - 1]) if segment else 0
    if change > 0:
        return segment, "limits", begin, change
    closed = segment < ends.size and found[2][segment] == 1
    return segment, "tests", int(ends[segment]) - 1 if closed else 0, -change if closed else 0


@pytest.mark.parametrize(
    ("theta", "horizon", "limit"), [(1, 60, "1/2"), (4, 7, 1), (9, 20, "1/10"), (30, 60, 3)]
)
def test_segments_cost_what_they_say(theta: int, horizon: int, limit: str) -> None:
    stage = OnlinePartition(epsilon=2, limit=limit, horizon=horizon)
    scale, worst, kinds = stage.test_scale(theta), Fraction(0), set()
    for seed, random, values, other in neighbours(theta):
        noise = {name: laplace(random, scale) for name in ("tests", "limits", "sums")}
        found = partition(stage, theta, values, noise, seed)
        segment, kind, place, size = partition_moves(values, other, theta, found)
        moved = {name: each.copy() for name, each in noise.items()}
        moved[kind][place] += size
        before, after = np.minimum(values, theta).sum(), np.minimum(other, theta).sum()
        moved["sums"][segment] += before - after
        assert partition(stage, theta, other, moved, seed + 1) == found
        worst = max(worst, Fraction(size, scale))
        kinds.add((kind, found[2][segment] if segment < len(found[2]) else 0))
    assert stage.tests_epsilon * Fraction(9, 10) < worst <= stage.tests_epsilon
    assert {("limits", 1), ("tests", 1)} <= kinds  # it rose, and it fell, in closed segments
    assert abs(int(before - after)) <= theta  # the counter: one leaf, by at most θ


def test_half_of_the_noise_is_not_enough_for_tests_that_move_both_ways() -> None:
    """The move of `OnlinePartition` fails where some sums rise and others fall: two values."""
    stage, theta = OnlinePartition(epsilon=2, limit=1, horizon=60), 4
    failed = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        values = np.zeros(COUNT, dtype=np.int64)
        noise = {name: laplace(random, stage.test_scale(theta)) for name in ("tests", "limits")}
        noise["sums"] = np.zeros(COUNT, dtype=np.int64)
        other = values.copy()
        other[0], values[1] = theta, theta
        found = partition(stage, theta, values, noise, seed)
        noise["limits"][0] += theta  # as if all sums had risen
        failed += partition(stage, theta, other, noise, seed) != found
    assert failed > 10


def grouping(stage: GroupedValues, theta: int, values: IntArray, noise: list[IntArray]) -> Output:
    run = begun(stage, theta)
    run._noise.at = lambda position: (noise, position)
    return pushed(run, values, np.random.default_rng(1))


def group_of(marks: list[int], place: int, longest: int) -> tuple[int, int | None]:
    """Where the group begins in which a value is tested, and the test that fails in it."""
    at = 0
    while True:
        end = at + 1
        while end < len(marks) and marks[end] == 2 and end - at < longest:
            end += 1
        failed = end if end < len(marks) and end - at < longest else None
        last = end - 1 if failed is None else failed
        if place <= last:
            return at, failed
        at = last + 1


@pytest.mark.parametrize(
    ("theta", "horizon", "limit"), [(1, 60, 5), (4, 7, 5), (9, 30, 20), (30, 60, 20)]
)
def test_groups_cost_what_they_say(theta: int, horizon: int, limit: int) -> None:
    stage = GroupedValues(epsilon="1/2", limit=limit, horizon=horizon)
    scales = [stage.value_scale(theta), stage.test_scale(theta), stage.limit_scale(theta)]
    worst, failures = Fraction(0), 0
    for _, random, values, other in neighbours(theta):
        noise = [laplace(random, scale) for scale in scales]
        found = grouping(stage, theta, values, noise)
        (place,) = np.flatnonzero(values != other).tolist()
        change = min(int(other[place]), theta) - min(int(values[place]), theta)
        begin, failed = group_of(found[2], place, stage.longest)
        moved = [each.copy() for each in noise]
        moved[0][place] -= change
        moved[2][begin] += 2 * abs(change)
        cost = Fraction(abs(change), scales[0]) + Fraction(2 * abs(change), scales[2])
        if failed is not None:
            moved[1][failed] += 4 * abs(change)
            cost += Fraction(4 * abs(change), scales[1])
            failures += 1
        assert grouping(stage, theta, other, moved) == found
        worst = max(worst, cost)
    assert failures > 20
    assert stage.epsilon * Fraction(7, 10) < worst <= stage.epsilon


# -- values that are measured or not, with ε for a window -----------------------------------------


@dataclass
class Draws:
    """Noise of measurements: the share of a scale that each position has, and moves."""

    shares: list[float]
    moves: dict[int, int]

    def of(self, position: int, scale: int) -> int:
        return int(scale * self.shares[position]) + self.moves.get(position, 0)


def sampled(stage: Any, theta: int, values: IntArray, tests: IntArray, draws: Draws) -> Output:
    run = begun(stage, theta)
    run._noise, run._sweep = draws, lambda stretch: one_by_one(run._sampler, stretch)
    if isinstance(stage, DistributedBudget):
        run._sampler._noise.at = lambda position: ([tests], position)
    return pushed(run, values, np.random.default_rng(1))


STAGES = {
    "distribution": DistributedBudget(epsilon=6, window=5, horizon=40),
    "distribution, wide": DistributedBudget(epsilon=40, window=20, horizon=40),
    "absorption": AbsorbedBudget(epsilon=6, window=5, horizon=40),
    "absorption, wide": AbsorbedBudget(epsilon=40, window=20, horizon=40),
    "absorption, one": AbsorbedBudget(epsilon=2, window=1, horizon=7),
    "rescue": ControlledBudget(epsilon=6, window=5, horizon=40),
    "rescue, wide": ControlledBudget(epsilon=80, window=40, horizon=40),
    "fast": AdaptiveSampling(epsilon=6, horizon=20, samples=5),
    "sampling": SampledWindow(epsilon=6, window=10, every=4, horizon=40),
}


@pytest.mark.parametrize("name", list(STAGES))
@pytest.mark.parametrize("theta", [1, 300])
def test_windows_cost_what_they_say(name: str, theta: int) -> None:
    """All values of a window replaced at once, wherever it lies."""
    stage = STAGES[name]
    window = getattr(stage, "window", stage.horizon)
    tested = isinstance(stage, DistributedBudget)
    worst = Fraction(0)
    for seed in range(depth(100, 400)):
        random = np.random.default_rng([seed, theta])
        values = stream(random, theta)
        other = neighbour(random, values, theta, window)
        tests = laplace(random, stage.scale(theta))
        draws = Draws(random.laplace(size=COUNT).tolist(), {})
        found = sampled(stage, theta, values, tests, draws)
        before, after = (np.minimum(each, theta).tolist() for each in (values, other))
        numbers, spans, marks = found
        moved, moves, cost = tests.copy(), {}, Fraction(0)
        at, last = 0, theta // 2  # the number that was published last
        for number, span, scale in zip(numbers, spans, marks, strict=True):
            for place in range(at, at + span):
                move = abs(before[place] - last) - abs(after[place] - last)
                moved[place] += move
                cost += Fraction(abs(move), stage.scale(theta)) if tested else 0
            at += span
            if scale:
                moves[at - 1] = before[at - 1] - after[at - 1]
                cost += Fraction(abs(moves[at - 1]), scale)
                last = number
        for place in range(at, COUNT):  # of a leaf that is still open
            move = abs(before[place] - last) - abs(after[place] - last)
            moved[place] += move
            cost += Fraction(abs(move), stage.scale(theta)) if tested else 0
        assert sampled(stage, theta, other, moved, Draws(draws.shares, moves)) == found
        assert cost <= stage.epsilon
        worst = max(worst, cost)
    least = Fraction(1, 4 if "rescue" in name else 2)  # which seldom spends all of it
    assert theta == 1 or worst > stage.epsilon * least  # scales of 1 are rounded up


# -- trees that are chosen by what was released -------------------------------------------------


def trees_moved(
    patch: pytest.MonkeyPatch, kind: Any, before: IntArray, after: IntArray, costs: list[Any]
) -> None:
    """Move the noise of every node by what the neighbour moves its sum; note what each costs."""
    made = kind.nodes

    def nodes(self: Any, tree: Any) -> list[IntArray]:
        found = [level.copy() for level in made(self, tree)]
        lengths = self._stage.lengths(self.chunk)
        start = self.chunk * sum(lengths) + sum(lengths[: self.number])
        for place in range(tree.length):
            if start + place >= before.size:
                break
            one, two = (min(int(each[start + place]), tree.cap) for each in (before, after))
            if one == two:
                continue
            leaf = next(at for at in range(tree.leaves) if place < tree.edge(at + 1))
            for level, noise in enumerate(found):
                noise[leaf * noise.size // tree.leaves] += one - two
                costs.append((start + place, tree, level, abs(one - two)))
        return found

    patch.setattr(kind, "nodes", nodes)


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("width", [1, 3])
def test_chosen_trees_cost_what_they_say(
    gaussian: bool, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is released of the neighbour is the same, later choices of trees and caps too."""
    unit, theta, count, held = tg.units.Window(length=width), 40, 900, 100
    more = {"holdout": held, "horizon": 400, "unit": unit, "resolution": 1}
    if gaussian:
        pipeline = tg.adaptive_gaussian(30, theta, delta="1e-6", **more)
    else:
        pipeline = tg.adaptive(12, theta, **more)
    run_class = GaussianRun if gaussian else AdaptiveRun
    worst, caps, shapes = 0.0, set(), set()
    for seed in range(depth(6, 40)):
        random = np.random.default_rng([seed, width])
        level = np.repeat(random.integers(0, theta, count // 50), 50)
        values = np.clip(level + random.integers(-4, 5, count), 0, theta)
        other = values.copy()
        place = int(random.integers(held, count - width))
        window = slice(place, place + width)
        other[window] = np.where(values[window] * 2 > theta, 0, theta)
        expected = pipeline.start(tg.seeded(seed)).push(values)
        costs: list[Any] = []
        with monkeypatch.context() as patch:
            trees_moved(patch, run_class, values[held:], other[held:], costs)
            found = pipeline.start(tg.seeded(seed)).push(other)
        assert found.tolist() == expected.tolist()
        # A window moves nodes that its values share by all of them together.
        moved: dict[Any, int] = {}
        for at, tree, one, size in costs:
            leaf = (one, tree, at if tree.nodes[one] == tree.length else None)
            moved[leaf] = moved.get(leaf, 0) + size
            caps.add(tree.cap)
            shapes.add(tree.nodes)
        if gaussian:
            cost = sum(size**2 / (2 * tree.variances[k]) for (k, tree, _), size in moved.items())
            assert cost <= pipeline.guarantee.rho * (1 + 1e-9)
            worst = max(worst, cost / float(pipeline.guarantee.rho))
        else:
            exact = sum(Fraction(size) / tree.scales[k] for (k, tree, _), size in moved.items())
            assert exact <= pipeline.guarantee.epsilon
            worst = max(worst, float(exact / pipeline.guarantee.epsilon))
    assert worst > 0.5
    assert len(caps) > 1 or len(shapes) > 1  # something was chosen
