"""What public settings alone show to be hopeless is refused, with the number that would do."""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

import tidegate as tg
from tidegate.errors import SettingError
from tidegate.plan import expect, setting_warnings
from tidegate.units import Window

PRESETS: list[Callable[..., tg.Pipeline]] = [tg.adaptive, tg.tops]
HOPELESS: list[dict[str, Any]] = [
    {"epsilon": "0.1", "horizon": 20, "holdout": 10},
    {"epsilon": "0.1", "horizon": 1000, "holdout": 10**6, "unit": Window(length=96)},
    {"epsilon": "0.1", "unit": Window(length=1440), "horizon": 20_000, "holdout": 10**7},
    {"epsilon": "0.0000001", "holdout": 10**7},
]
# With the paper's form: 0.0003 of the truth, with confidence. (Without a hold-out, the warm-up is
# as long as such a budget needs.)
HELD_OUT: list[dict[str, Any]] = [
    {"epsilon": "0.1", "unit": Window(length=1440)},
    {"epsilon": "0.0001"},
]


@pytest.mark.parametrize(
    ("preset", "settings"),
    [(preset, settings) for preset in PRESETS for settings in HOPELESS]
    + [(tg.adaptive, {"epsilon": "0.1", "unit": Window(length=1440), "horizon": 20_000})]
    + [(tg.tops, settings) for settings in HELD_OUT],
)
def test_hopeless_settings_are_refused_with_numbers_that_do(
    preset: Callable[..., tg.Pipeline], settings: dict[str, Any]
) -> None:
    with pytest.raises(SettingError, match="Use epsilon") as refused:
        preset(bound=10, **settings)
    message = str(refused.value)
    enough = re.search(r"Use epsilon ([0-9.e-]+) or more", message)
    assert enough is not None
    preset(bound=10, **{**settings, "epsilon": enough[1]})
    longer = re.search(r"(horizon|hold-out) of ([0-9,]+) values(?: or more)?$", message)
    assert longer is not None
    name = longer[1].replace("-", "")
    preset(bound=10, **{**settings, name: int(longer[2].replace(",", ""))})


def test_noise_does_exceed_every_total_where_it_is_refused() -> None:
    """The rule against the plan: built from stages, the same settings are allowed, and useless."""
    for epsilon in ("0.1", "0.14"):
        pipeline = tg.Pipeline(
            threshold=tg.threshold.Fixed(10), perturber=tg.perturb.Flat(epsilon=epsilon, horizon=20)
        )
        (total,) = expect(pipeline, [20])
        assert total.standard_error > 20 * 10 / 2
    # The best there is: one node for the whole horizon.
    tree = tg.perturb.Hierarchy(epsilon="0.14", horizon=16, fanout=16, skipped=1)
    (total,) = expect(tg.Pipeline(threshold=tg.threshold.Fixed(10), perturber=tree), [16])
    assert total.noise_error > 16 * 10 / 2


def test_doubts_name_the_holdout_that_would_do() -> None:
    for preset in PRESETS:
        doubtful = preset("0.1", 100, holdout=400, horizon=4000)
        (sentence,) = setting_warnings(doubtful)
        found = re.search(r"hold-out of ([0-9,]+) values", sentence)
        assert found is not None
        assert not setting_warnings(preset("0.1", 100, holdout=int(found[1]), horizon=4000))
    fixed = tg.Pipeline(threshold=tg.threshold.Fixed(9), perturber=tg.perturb.Flat(epsilon=1))
    assert setting_warnings(fixed) == []


def test_a_threshold_above_the_bound_is_not_planned_with() -> None:
    """It was taken as the bound, and the table said nothing about it."""
    pipeline = tg.adaptive(1, 10, holdout=500, horizon=4000)
    with pytest.raises(SettingError, match="threshold: must not exceed the bound 10"):
        expect(pipeline, [100], threshold=20)
    (most,) = expect(pipeline, [100], threshold=10)
    assert most.threshold == 10
    assert Fraction(str(most.threshold)) == pipeline.lattice.bound
