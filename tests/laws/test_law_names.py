"""Names decide nothing about noise: renaming or moving a class changes no digest and no key."""

from __future__ import annotations

import hashlib
from dataclasses import fields, make_dataclass, replace
from fractions import Fraction
from typing import Any

import pytest

import tidegate as tg
from tests.laws.catalogue import bits, exported, make, method_stages, stream
from tidegate.local.series import Changes, Patterns, PopulationDivision, Updates
from tidegate.local.topl import Topl
from tidegate.perturb.forest_geometry import Forest
from tidegate.run.refinement_schedule import Refinement
from tidegate.settings import Spec, digest

# KIND → digest of the settings of `examples()`. A digest that differs means other noise, and stored
# state that is refused: if that is meant, it belongs under Privacy in CHANGELOG.md.
GOLDEN = {
    "threshold.AboveThreshold": "0d2a5d03c3003c12",
    "threshold.CauchyQuantile": "f38bbb51f8c1026c",
    "threshold.GaussianQuantile": "19cf5ebd7d5c54fd",
    "threshold.LogHistogram": "d4011d1068e42023",
    "threshold.Fixed": "70cb6c5da8770f93",
    "threshold.NoisyMax": "6789b25a72dea916",
    "threshold.ScaleFree": "9c73c192e8d9cbde",
    "threshold.SmoothQuantile": "f396aff3af4266c2",
    "threshold.TailQuantile": "5bc33bada2e747a7",
    "perturb.AdaptiveTrees": "2e18783a885da8b8",
    "perturb.Flat": "b6e385b15376a5e0",
    "perturb.Hierarchy": "62cd89f0375d733e",
    "perturb.RefinementTrees": "731a3b4992b35b6a",
    "estimate.Exponential": "f55b21ca94d61bb4",
    "estimate.Mean": "5d1a646e39fd479d",
    "estimate.Median": "7b6ce077e9af7573",
    "estimate.MovingAverage": "394b2fae78d203a8",
    "estimate.Recent": "14bff242bcc092c8",
    "estimate.Unsmoothed": "eeb56821536d040e",
    "estimate.Mixture": "e60e8cc5abcb96c1",
    "estimate.GroupMeans": "989689d74840349f",
    "estimate.GroupMedians": "747ad268bd5e2914",
    "estimate.LastPublished": "cb7d72bb9c6272ea",
    "perturb.EventTrees": "127edcf4360de93b",
    "estimate.EventMixture": "753f635a1774127c",
    "events.Ticks": "387a872e88f21328",
    "units.AddedEvent": "19912ca025e40ae5",
    "estimate.SegmentSums": "90c49f93da62b00b",
    "units.Event": "618f60d0d52df0e1",
    "units.Window": "98dc2209a3f11f27",
    "units.UserHorizon": "d9056cc1501916b8",
    "refinement.Refinement": "096a0e30304299af",
    "reselection.Reselection": "60e62ea702bcceaa",
    "pipeline.Pipeline": "980e5de856664830",
    "local.series.Changes": "d3457409b53638c5",
    "local.series.Patterns": "5111e356139b5640",
    "local.series.PopulationDivision": "90827663af4d5528",
    "local.series.Updates": "ae8e80caf55ac664",
    "local.Topl": "c4cd197a2ba6ff69",
    "methods.AbsorbedBudget": "e9edff208e9b716d",
    "methods.AdaptiveSampling": "99dc20aaf2e3e6c5",
    "methods.BandedRoot": "065c1ecbc327f55b",
    "methods.BottomUpTree": "e90ff27d39f2155d",
    "methods.ControlledBudget": "682c9224194ab7a4",
    "methods.GaussianTrees": "bd2a8108e73399fb",
    "methods.DistributedBudget": "c8cbb4c2cae85fd8",
    "methods.FilteredLevel": "6fcf8e01150916eb",
    "methods.GroupedValues": "c79898f49d1fe3cf",
    "methods.HybridTrees": "023163ad4be397c9",
    "methods.OnlinePartition": "60249aed264dcaf7",
    "methods.NothingMeasured": "11d32a56eb3fdb73",
    "methods.Zeros": "21b3984b3fc1fd0f",
    "methods.SampledWindow": "d103820014d0ab98",
    "methods.SignedDigits": "a8679c250d99b472",
    "methods.SmoothBinary": "5047966f3a4f62b9",
    "methods.SquareRoot": "04d2e780d8dec8ff",
}


EVENTS = tg.events(epsilon=1, bound=40, every="15min", start="2024-02-01", horizon=60)


def examples() -> list[Any]:
    """One of every specification, with the settings of the catalogue."""
    return [
        *(make(name) for name in exported()),
        *method_stages(),
        tg.pegasus(1, 40, medians=True).estimator,
        tg.units.Event(),
        tg.units.AddedEvent(),
        *(getattr(EVENTS, part) for part in ("perturber", "estimator", "ticks")),
        tg.units.Window(length=60),
        tg.units.UserHorizon(most=5),
        tg.Reselection(threshold=make("threshold.NoisyMax"), every=50),
        Refinement(),
        Refinement().trees(tg.threshold.Fixed(12), make("perturb.AdaptiveTrees")),
        tg.Pipeline(threshold=tg.threshold.Fixed(12), perturber=make("perturb.Hierarchy")),
        Topl(epsilon=1, bound=40, resolution=1),
        Changes(epsilon=1, horizon=8),
        Updates(epsilon=1),
        Patterns(epsilon=1, window=5),
        PopulationDivision(epsilon=1, window=5),
    ]


def test_no_rename_goes_unnoticed() -> None:
    found = [(spec.KIND, digest(spec.settings()).hex()[:16]) for spec in examples()]
    assert len(found) == len(dict(found)), "two specifications share a KIND"
    assert dict(found) == GOLDEN


def test_every_specification_is_in_the_table() -> None:
    def below(kind: type) -> set[type]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    ours = {one for one in below(Spec) - {Spec} if one.__module__.startswith("tidegate.")}
    assert {one.KIND for one in ours} == set(GOLDEN)  # type: ignore[attr-defined]


def renamed(value: Any) -> Any:
    """An equal value of a class with another name, in another module."""
    kind = type(value)
    extra = {"KIND": kind.KIND} if isinstance(value, Spec) else {}
    body = {**extra, "__module__": "some.other.module"}
    frozen = {"frozen": True, "kw_only": isinstance(value, Spec), "repr": not extra}
    other = make_dataclass("Other", [], bases=(kind,), namespace=body, **frozen)
    other.__module__ = "some.other.module"
    given = {item.name: getattr(value, item.name) for item in fields(value)}
    try:
        return other(**given)
    except TypeError:  # `Fixed` takes its value by position
        return other(*given.values())


@pytest.mark.parametrize("spec", examples(), ids=lambda spec: spec.KIND)
def test_renaming_and_moving_changes_no_digest(spec: Any) -> None:
    other = renamed(spec)
    assert type(other).__name__ == "Other"
    assert digest(other.settings()) == digest(spec.settings())


@pytest.mark.parametrize("name", ["perturb.Hierarchy", "perturb.AdaptiveTrees"])
def test_renamed_stages_make_the_same_noise(name: str) -> None:
    estimator = tg.estimate.Recent() if name == "perturb.Hierarchy" else tg.estimate.Mixture()
    plain = tg.Pipeline(threshold=tg.threshold.Fixed(12), perturber=make(name), estimator=estimator)
    other = replace(plain, perturber=renamed(plain.perturber), estimator=renamed(plain.estimator))
    values = stream(200)
    first, second = (one.start(tg.seeded(3)).push(values) for one in (plain, other))
    assert bits(first) == bits(second)


def test_renaming_changes_no_law() -> None:
    forest = Forest(4, 15, (Fraction(5, 2), Fraction(7)), consistent=False)
    tree = make("perturb.AdaptiveTrees").layouts(30, 12, 40)[3]
    for law in (forest, tree):
        assert renamed(law).identity == law.identity
    assert forest.identity == (
        "Forest(fanout=4, leaves=15, scales=(Fraction(5, 2), Fraction(7, 1)), consistent=False, "
        "grove=4096)"
    )
    assert tree.identity == (
        "Tree(length=30, nodes=(1, 8), cap=12, scales=(Fraction(48, 1), Fraction(48, 1)), "
        "variances=(4607.833336950169, 4607.833336950169), rung=0)"
    )


def test_the_law_of_all_adaptive_trees_is_pinned() -> None:
    text = make("perturb.AdaptiveTrees").noise_identity(12, 40)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "dd1f2ffd485fe4da"


def test_other_noise_has_another_identity() -> None:
    forest = Forest(4, 15, (Fraction(5, 2), Fraction(7)))
    others = [
        Forest(5, 15, forest.scales),
        Forest(4, 16, forest.scales),
        Forest(4, 15, forest.scales[::-1]),
        Forest(4, 15, forest.scales, consistent=False),
        Forest(4, 15, forest.scales, grove=8),
    ]
    tree = make("perturb.AdaptiveTrees").layouts(30, 12, 40)[3]
    other_trees = [
        replace(tree, length=31),
        replace(tree, nodes=(1, 4)),
        replace(tree, cap=11),
        replace(tree, scales=tree.scales[:1]),
        replace(tree, variances=tree.variances[:1]),
        replace(tree, cap_step=1),
    ]
    assert len({law.identity for law in (forest, *others)}) == 6
    assert len({law.identity for law in (tree, *other_trees)}) == 7


@pytest.mark.parametrize("body", [{}, {"KIND": ""}, {"KIND": 7}])
@pytest.mark.parametrize("base", [Spec, tg.perturb.Flat])
def test_a_stage_without_a_kind_is_refused(base: type, body: dict[str, Any]) -> None:
    """Inherited from another stage is not written."""
    with pytest.raises(TypeError, match="Nameless has no KIND: write one in the class"):
        type("Nameless", (base,), body)
