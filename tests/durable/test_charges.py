"""Law 6: what the ledger is charged where it is charged most is the pipeline's guarantee."""

from fractions import Fraction
from itertools import islice, pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tidegate as tg
from tidegate.durable.charging import charged_costs
from tidegate.errors import SettingError
from tidegate.guarantee import free, parallel, sequential
from tidegate.units import Event, UserHorizon, Window

units = st.one_of(
    st.just(Event()),
    st.integers(1, 50).map(lambda length: Window(length=length)),
    st.integers(1, 50).map(lambda most: UserHorizon(most=most)),
)
budgets = st.fractions(Fraction(1, 1000), 10, max_denominator=1000)


@st.composite
def pipelines(draw):
    holdout = draw(st.integers(1, 300))
    settings = {
        "epsilon": draw(budgets),
        "bound": 1000,
        "horizon": draw(st.integers(1, 2000)),
        "holdout": holdout,
        "fanout": draw(st.sampled_from([2, 4, 16])),
        "skipped": draw(st.sampled_from([None, 0, 1])),
        "unit": draw(units),
    }
    if draw(st.booleans()):
        settings["rethreshold_every"] = draw(st.integers(holdout, 5 * holdout + 50))
        if draw(st.booleans()):
            settings["rethreshold_share"] = draw(st.sampled_from(["1/10", "0.5", "0.99"]))
    if draw(st.booleans()):
        settings["start_early"] = draw(st.integers(1, 300))
    try:
        return tg.tops(**settings)
    except SettingError:
        assume(False)


@given(pipelines())
def test_the_largest_sum_over_positions_is_the_guarantee(pipeline):
    found = list(islice(charged_costs(pipeline), 12))
    starts = sorted({cost.start for cost in found})
    sums = []
    for position in starts:
        here = [
            cost.guarantee
            for cost in found
            if cost.start <= position and (cost.end is None or position < cost.end)
        ]
        sums.append(sequential(*here) if here else free())
    assert parallel(*sums) == pipeline.guarantee


@given(pipelines())
def test_costs_arise_in_order_and_leave_no_position_out(pipeline):
    found = list(islice(charged_costs(pipeline), 12))
    assert all(cost.end is None or cost.start < cost.end for cost in found)
    assert [cost.start for cost in found] == sorted(cost.start for cost in found)
    covered = 0
    for cost in found:
        assert cost.start <= covered
        covered = max(covered, 1 << 62 if cost.end is None else cost.end)
    selections = [cost for cost in found if cost.stage == "threshold"]
    for before, after in pairwise(selections):
        assert before.end <= after.start  # a value enters at most one selection


@given(pipelines())
def test_the_stream_never_reads_what_is_blocked(pipeline):
    if pipeline.reselect is None or not pipeline.reselect.blocking:
        return
    found = list(islice(charged_costs(pipeline), 12))
    for before, after in pairwise(found):
        assert before.end == after.start


def test_a_fixed_threshold_costs_nothing():
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(10), perturber=tg.perturb.Flat(epsilon=1, horizon=10)
    )
    assert [(cost.stage, cost.start, cost.end) for cost in charged_costs(pipeline)] == [
        ("stream", 0, None)
    ]


@pytest.mark.parametrize("name", ["pak", "pak_with_tops_stream", "pak_with_tops_threshold"])
def test_other_presets(name):
    pipeline = getattr(tg, name)(epsilon=1, bound=100, resolution=1, holdout=50, horizon=100)
    found = list(charged_costs(pipeline))
    assert [cost.start for cost in found] == [0, 50]
    assert parallel(*(cost.guarantee for cost in found)) == pipeline.guarantee
