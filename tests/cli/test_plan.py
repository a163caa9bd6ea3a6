"""`tidegate plan`: the library's predictions, and the search for an epsilon."""

import json
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

import tidegate as tg
from tidegate.cli import plan
from tidegate.plan import best_hierarchy, expect, half_width, needed_epsilon
from tidegate.plan.best_tree_and_needed_epsilon import smallest_epsilon

app = typer.Typer()
app.command("plan")(plan.plan)


@cache
def answered(*words: str) -> Result:
    """A plan depends on its words alone: what several tests ask is searched for once."""
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def ask() -> Callable[..., Result]:
    return lambda *words: answered("--preset", "tops", *map(str, words))


def planned(ask: Callable[..., Result], *words: Any) -> Any:
    result = ask(*words, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_the_numbers_are_those_of_the_library(ask: Callable[..., Result]) -> None:
    settings = ("--epsilon", "0.1", "--bound", 1657, "--threshold", 50, "--roughness", "0.02")
    facts = planned(ask, *settings, "--lengths", "3600,86400", "--mean", 20)
    pipeline = tg.tops(epsilon="0.1", bound=1657)
    expected = expect(pipeline, [3600, 86400], threshold=50, roughness="0.02")
    for row, expectation in zip(facts["expected"], expected, strict=True):
        for name in ("length", "noise_error", "prediction_error", "standard_error"):
            assert row[name] == getattr(expectation, name)
        assert row["half_width"] == pytest.approx(1.96 * row["standard_error"], rel=0.05)
        assert row["relative"] == row["half_width"] / (20 * row["length"])
    best = best_hierarchy(
        epsilon="0.1", horizon=2**20, lengths=[3600, 86400], roughness="0.02", fanouts=[16, 32]
    )[0]
    assert facts["best"]["error_in_thresholds"] <= best.error
    assert facts["error_in_thresholds"] >= facts["best"]["error_in_thresholds"]


def test_the_best_tree_is_as_good_as_promised(ask: Callable[..., Result]) -> None:
    words = ("--epsilon", "0.1", "--bound", 1657, "--roughness", "0.02", "--lengths", "3600")
    best = planned(ask, *words)["best"]
    pipeline = tg.tops(epsilon="0.1", bound=1657, fanout=best["fanout"], skipped=best["skipped"])
    (expectation,) = expect(pipeline, [3600], roughness="0.02")
    assert pipeline.perturber.block == best["block"]
    error = expectation.standard_error / expectation.threshold
    assert error == pytest.approx(best["error_in_thresholds"], rel=1e-3)


def test_a_table_for_people(ask: Callable[..., Result]) -> None:
    result = ask("--epsilon", "0.1", "--bound", 1657, "--mean", 20)
    assert result.exit_code == 0
    for words in ("86,400", "± (95 %)", "%", "the worst case", "ε = 0.1 per event"):
        assert words in result.stdout
    assert "--fanout" in ask("--epsilon", "0.1", "--bound", 9, "--roughness", "0.01").stdout


def test_units_divide_the_budget(ask: Callable[..., Result]) -> None:
    whole = planned(ask, "--epsilon", "6", "--bound", 100, "--unit", "window:60")
    assert whole["guarantee"].startswith("ε = 6 per window of 60")
    alone = planned(ask, "--epsilon", "0.1", "--bound", 100)
    assert whole["expected"] == alone["expected"]


@pytest.mark.parametrize("target", ["500", "5000", "2e6"])
def test_the_epsilon_that_is_found_is_enough_and_hardly_more(
    ask: Callable[..., Result], target: str
) -> None:
    # With the usual hold-out, so little ε as is enough for 2e6 would be refused.
    words = ("--bound", 1657, "--threshold", 50, "--lengths", "86400", "--holdout", 10**6)
    facts = planned(ask, *words, "--target", target, "--length", 86400)
    found = Fraction(facts["target"]["epsilon"])
    assert Fraction(facts["epsilon"]) == found
    assert facts["expected"][0]["half_width"] <= float(target)
    less = planned(ask, *words, "--epsilon", found * Fraction(98, 100))
    assert less["expected"][0]["half_width"] > float(target)


def test_another_tree_may_need_less(ask: Callable[..., Result]) -> None:
    words = ("--bound", 1657, "--threshold", 50, "--target", 5000, "--length", 86400)
    facts = planned(ask, *words)["target"]
    other = facts["with_other_tree"]
    assert Fraction(other["epsilon"]) < Fraction(facts["epsilon"])
    pipeline = tg.tops(epsilon=other["epsilon"], bound=1657, skipped=other["skipped"])
    (expectation,) = expect(pipeline, [86400], threshold=50)
    assert 1.95 * expectation.standard_error <= 5000
    text = ask(*words).stdout
    assert f"--skipped {other['skipped']}, ε = {float(Fraction(other['epsilon'])):g}" in text


def test_more_confidence_needs_more_epsilon(ask: Callable[..., Result]) -> None:
    words = ("--bound", 100, "--target", 30_000, "--length", 86_400)
    usual = planned(ask, *words)["target"]["epsilon"]
    sure = planned(ask, *words, "--confidence", "0.999")["target"]["epsilon"]
    assert Fraction(sure) > Fraction(usual)


def test_the_library_finds_the_same_epsilon(ask: Callable[..., Result]) -> None:
    words = ("--bound", 1657, "--threshold", 50, "--target", 5000, "--length", 86400)
    facts = planned(ask, *words)
    found = needed_epsilon(lambda epsilon: tg.tops(epsilon, 1657), 86400, 5000, threshold=50)
    assert found == Fraction(facts["epsilon"])
    pipeline = tg.tops(found, 1657)
    (expectation,) = expect(pipeline, [86400], threshold=50)
    assert half_width(pipeline, expectation) == facts["expected"][0]["half_width"]


def test_the_search_on_a_staircase() -> None:
    target = Fraction(1)
    assert smallest_epsilon(
        lambda epsilon: float(Fraction("0.123") / epsilon), target, falling=True
    ) == Fraction("0.123")
    assert smallest_epsilon(
        lambda epsilon: float(Fraction("0.123") / epsilon), target, falling=False
    ) == Fraction("0.123")
    # An early step that is enough counts, though the error rises again after it.
    steps: Callable[[Fraction], float] = lambda epsilon: (  # noqa: E731  # a table
        0.5 if Fraction("0.0211") <= epsilon < Fraction("0.3") or epsilon > 1 else 2.0
    )
    assert smallest_epsilon(steps, target, falling=False) == Fraction("0.0211")
    assert smallest_epsilon(lambda _: 0.0, target, falling=True) == Fraction(1, 10**6)
    assert smallest_epsilon(lambda _: 0.0, target, falling=False) == Fraction(1, 10**6)
    for falling in (True, False):
        assert smallest_epsilon(lambda _: 2.0, target, falling=falling) is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--epsilon is required, or --target and --length"),
        (("--epsilon", "0"), "epsilon"),
        (("--epsilon", "much"), "epsilon"),
        (("--epsilon", "1", "--lengths", "60,x"), "lengths"),
        (("--epsilon", "1", "--lengths", "0"), "lengths"),
        (("--epsilon", "1", "--length", "60"), "--target"),
        (("--epsilon", "1", "--target", "5", "--length", "60"), "no --epsilon"),
        (("--target", "5"), "--length"),
        (("--target", "-5", "--length", "60"), "target"),
        (("--target", "1e-9", "--length", "600"), "no epsilon up to 100"),
        (("--epsilon", "1", "--confidence", "1"), "confidence"),
        (("--epsilon", "1", "--roughness", "-1"), "roughness"),
        (("--epsilon", "1", "--mean", "0"), "mean"),
        (("--epsilon", "1", "--unit", "day"), "unit"),
        (("--epsilon", "1", "--resolution", "1000"), "resolution"),
    ],
)
def test_bad_options(ask: Callable[..., Result], words: tuple[str, ...], message: str) -> None:
    result = ask("--bound", "100", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
