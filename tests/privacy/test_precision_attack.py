"""An output that only one of two neighbours can produce gives it away, whatever ε says."""

import itertools
import math

import numpy as np
import pytest

import tidegate as tg
from tests.depth import in_turn
from tidegate.perturb.forest_geometry import Forest

STEP = "0.01"


def textbook_laplace(uniforms, location, scale):
    """The inverse of the distribution function, in floats, as libraries draw it.

    Drawing and checking call this one function. `np.log` would not do: with AVX-512 it has a code
    of its own, which rounds some values other than the logarithm of numpy's generators does.
    """
    return np.array(
        [
            location + scale * math.log(u + u)
            if u < 0.5
            else location - scale * math.log(2.0 - u - u)
            for u in uniforms.tolist()
        ]
    )


def float_outputs(rng, location, scale, count):
    return textbook_laplace(rng.integers(1, 2**53, size=count) / 2.0**53, location, scale)


def reachable(outputs, location, scale):
    """Whether the formula gives these floats at `location`, for some 53-bit uniform."""
    distance = (outputs - location) / scale
    found = np.zeros(outputs.size, dtype=bool)
    for upper, uniform in ((False, np.exp(distance) / 2), (True, 1 - np.exp(-distance) / 2)):
        nearest = np.rint(uniform * 2.0**53)
        for offset in range(-64, 65):  # all uniforms whose output could round to this float
            u = (nearest + offset) / 2.0**53
            legal = np.flatnonzero((u > 0) & (u < 1) & ((u >= 0.5) == upper))
            found[legal] |= textbook_laplace(u[legal], location, scale) == outputs[legal]
    return found


def test_float_noise_has_outputs_of_one_neighbour_only():
    rng = np.random.default_rng(27)
    for scale in (1.0, 10.0):
        zero, one = (float_outputs(rng, location, scale, 1000) for location in (0.0, 1.0))
        # The check is right about what it knows: everything is reachable from its own truth.
        assert reachable(zero, 0.0, scale).all()
        assert reachable(one, 1.0, scale).all()
        assert np.mean(~reachable(zero, 1.0, scale)) > 0.1
        assert np.mean(~reachable(one, 0.0, scale)) > 0.1


PERTURBERS = [
    tg.perturb.Flat(epsilon=1, horizon=8),
    tg.perturb.Hierarchy(epsilon=1, horizon=8, fanout=2, skipped=0, levels=3),
    tg.perturb.Hierarchy(epsilon=1, horizon=9, fanout=3, skipped=0, levels=2),
    tg.perturb.Hierarchy(epsilon=1, horizon=8, fanout=2, skipped=0, levels=3, consistent=False),
    tg.perturb.Hierarchy(epsilon=1, horizon=8, fanout=2, skipped=0, shares=(1, 2, 4)),
]


def pipeline_of(perturber, resolution=STEP):
    return tg.Pipeline(
        threshold=tg.threshold.Fixed(3),
        perturber=perturber,
        estimator=tg.estimate.Unsmoothed(),
        resolution=resolution,
    )


def off_lattice(outputs, step=float(STEP)):
    """The share of outputs that are not a multiple of the step, bit for bit."""
    return float(np.mean(np.rint(outputs / step) * step != outputs))


@pytest.mark.parametrize("perturber", in_turn(PERTURBERS, 0), ids=str)
def test_every_output_is_on_the_lattice_of_both(perturber):
    # Catches: noise added after scaling, or in floats: then the low bits tell the truth's grid.
    pipeline = pipeline_of(perturber)
    period = perturber.horizon
    for truth in (0.0, 0.37, 1.11, 3.0):
        stream = np.zeros(period)
        stream[1] = truth
        release = pipeline.start(tg.seeded(5))
        outputs = release.push(np.tile(stream, 300))
        singles = pipeline.start(tg.seeded(5))
        assert [singles.push(float(value)) for value in stream] == outputs[:period].tolist()
        assert off_lattice(outputs) == 0


def test_the_check_notices_noise_in_floats():
    # The planted fault: integers scaled first, added second. The truth's own rounding shows.
    noise = np.random.default_rng(2).integers(-500, 500, size=20_000)
    assert off_lattice((noise + 111) * 0.01) == 0
    assert off_lattice(noise * 0.01 + 1.11) > 0.1


def test_noise_reaches_every_integer():
    # The support of the noise has no gap near 0: any difference of neighbours is bridged.
    release = pipeline_of(tg.perturb.Flat(epsilon=1, horizon=1000), resolution=1).start(
        tg.seeded(6)
    )
    drawn = np.unique(release.push(np.zeros(200_000)))
    assert set(range(-20, 21)) <= set(drawn.astype(int).tolist())


@pytest.mark.parametrize("perturber", in_turn(PERTURBERS, 1), ids=str)
def test_every_integer_output_is_reachable_from_every_neighbour(monkeypatch, tools, perturber):
    # For any target there is a noise vector (the leaves' difference, inner nodes its sums) that
    # leads there, from either neighbour, through the whole release: the sets of outputs are equal.
    pipeline = pipeline_of(perturber, resolution=1)
    rng = np.random.default_rng(8)
    wanted: dict[str, np.ndarray] = {}

    def chosen(self, keystream, chunk, grove):
        drift = np.zeros(self.grove_leaves, dtype=np.int64)
        drift[: wanted["drift"].size] = wanted["drift"]
        return tools.node_sums(drift, self.fanout, self.levels)

    monkeypatch.setattr(Forest, "nodes", chosen)
    for target in rng.integers(-50, 50, size=(20, perturber.horizon)):
        first = rng.integers(0, 4, size=perturber.horizon)
        second = first.copy()
        second[rng.integers(perturber.horizon)] = rng.integers(0, 4)
        for stream, one_by_one in itertools.product((first, second), (False, True)):
            wanted["drift"] = target - stream
            release = pipeline.start(tg.seeded(1))
            if one_by_one:
                outputs = [release.push(int(value)) for value in stream]
            else:
                outputs = release.push(stream).tolist()
            assert outputs == target.tolist()
            sums = [release.query(t, t + 1).estimate for t in range(perturber.horizon)]
            assert sums == target.tolist()
