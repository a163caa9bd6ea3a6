"""What a report costs: exactly, by the weights, and as an attacker would measure it."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.depth import examples, in_turn
from tidegate.errors import RefusedError, SettingError
from tidegate.local.integer_weights import least_weight, whole_weights
from tidegate.local.mechanisms import (
    generalised_piecewise,
    hybrid,
    laplace,
    optimal,
    piecewise,
    square_wave,
    stochastic_rounding,
)
from tidegate.local.questions import TailQuestion
from tidegate.randomness import seeded


def tail(top, epsilon):
    return TailQuestion.at(top / 2, epsilon, dither=1.0)


BUILDERS = {
    "laplace": laplace,
    "generalised-piecewise": generalised_piecewise,
    "stochastic rounding": stochastic_rounding,
    "piecewise": piecewise,
    "hybrid": hybrid,
    "optimal": optimal,
    "square wave": square_wave,
    "tail": tail,
}
FAST = {name: build for name, build in BUILDERS.items() if name != "optimal"}
TOP = 60
COUNT = 400_000


def exact_loss(question):
    """The largest ln(P(report | one value)/P(report | another)), to 50 digits, of the weights."""
    if question.form == "value":
        pairs = [(max(column), min(column)) for column in zip(*question.weights, strict=True)]
    elif question.form == "wave":
        pairs = [(question.high, question.low)]
    else:
        pairs = [(2**32 - question.lie, question.lie)]
    with localcontext(prec=50):
        return max((Decimal(largest) / Decimal(least)).ln() for largest, least in pairs)


def claimed(epsilon):
    with localcontext(prec=50):
        return Decimal(epsilon.numerator) / Decimal(epsilon.denominator)


@pytest.mark.parametrize("epsilon", ["0.1", "1/3", "0.61", "0.7", "1", "2", "5"])
@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_tables_cost_what_they_may_and_not_more(build, epsilon):
    epsilon = Fraction(epsilon)
    question = build(TOP, epsilon)
    assert claimed(epsilon) * Decimal("0.9999") < exact_loss(question) <= claimed(epsilon)
    question.check(epsilon)
    for less in (epsilon * Fraction(999, 1000), Fraction(0), -epsilon):
        with pytest.raises(RefusedError, match="would cost more than epsilon"):
            question.check(less)


@settings(max_examples=examples(60))
@given(
    numerator=st.integers(1, 10_000), name=st.sampled_from(sorted(FAST)), top=st.integers(1, 10**9)
)
def test_every_epsilon_gives_a_table_within_it(numerator, name, top):
    epsilon = Fraction(numerator, 1_000)
    question = FAST[name](top, epsilon)
    question.check(epsilon)
    assert exact_loss(question) <= claimed(epsilon)


@pytest.mark.parametrize("numerator", in_turn([611, 997, 3_333, 9_999], 0))
def test_every_epsilon_gives_an_optimal_table_within_it(numerator):
    question = optimal(5, Fraction(numerator, 1_000))
    assert exact_loss(question) <= claimed(Fraction(numerator, 1_000))


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(2, 9),
    columns=st.integers(2, 9),
    epsilon=st.fractions(Fraction(1, 100), 8),
)
def test_rounding_keeps_the_totals_and_the_loss_whatever_the_floats_were(
    seed, rows, columns, epsilon
):
    random = np.random.default_rng(seed)
    base = random.dirichlet(np.ones(columns))
    mixed = base * np.exp(random.uniform(0, 1.2 * float(epsilon), size=(rows, columns)))
    mixed /= mixed.sum(axis=1, keepdims=True)  # now some columns cost more than they may
    try:
        weights = whole_weights(mixed, epsilon)
    except SettingError:
        return  # too far off to be mended: refused, never repaired at the cost of privacy
    assert {sum(row) for row in weights} == {2**32}
    for column in zip(*weights, strict=True):
        assert 1 <= least_weight(max(column), epsilon) <= min(column)


def test_what_a_row_has_too_much_is_taken_from_as_many_columns_as_it_takes():
    epsilon = Fraction(1, 10)
    ratio = np.exp(0.12)  # more than may be: rounding lifts the low half of each row
    row = np.repeat([ratio, 1.0], 20)
    weights = whole_weights(np.array([row, row[::-1]]) / row.sum(), epsilon)
    assert {sum(each) for each in weights} == {2**32}
    lowered = sum(weight < max(weights[0]) for weight in weights[0][:20])
    assert 1 < lowered < 20
    for column in zip(*weights, strict=True):
        assert least_weight(max(column), epsilon) <= min(column)


def reports(question, value, name):
    words = seeded(3).new_epoch().keystream(name, b"").at()
    return question.answers(np.full(COUNT, value), words)


def audited(question, low=0, high=TOP):
    """A lower bound of ε at 99.9 %: the best event of one half of the runs, tested on the other."""
    bounds = []
    for one, other in ((low, high), (high, low)):
        first, second = reports(question, one, "first"), reports(question, other, "second")
        half = COUNT // 2
        seen = np.bincount(first[:half], minlength=question.reports)
        ratio = (seen + 1) / (np.bincount(second[:half], minlength=question.reports) + 1)
        ratio[seen < 400] = 0  # chance alone would pick a rare report
        event = np.flatnonzero(ratio > 0.9 * ratio.max())
        hits = np.isin(first[half:], event).sum(), np.isin(second[half:], event).sum()
        below = stats.beta.ppf(0.0005, hits[0], half - hits[0] + 1)
        above = stats.beta.ppf(0.9995, hits[1] + 1, half - hits[1])
        bounds.append(np.log(below / above))
    return max(bounds)


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_an_attacker_cannot_prove_more_than_epsilon(build):
    assert 0.9 < audited(build(TOP, Fraction(1))) <= 1


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_an_attacker_can_prove_that_a_table_is_too_bold(build):
    fault = build(TOP, Fraction(13, 10))
    assert audited(fault) > 1
    with pytest.raises(RefusedError):
        fault.check(Fraction(1))


def test_an_attacker_can_prove_that_words_are_used_twice():
    """A fault of a sampler: the coin of the row is the word of the column, too."""

    class Twice:
        bits = 64

        def take(self, count):
            once = seeded(3).new_epoch().keystream(f"{count}", b"").at().take(count)
            return once >> np.uint64(32) << np.uint64(32) | once >> np.uint64(32)

    question = stochastic_rounding(TOP, Fraction(1))
    share = question.answers(np.full(COUNT, TOP * 7 // 10), Twice()).mean()
    honest = exact_shares(question, TOP * 7 // 10)[1]
    assert abs(share - honest) > 5 * (honest / COUNT) ** 0.5


@pytest.mark.parametrize("epsilon", in_turn(["0.5", "3"], 1))
@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_reports_are_spread_as_the_weights_say(build, epsilon):
    """Chi-square against the exact probabilities, and against those of a larger ε."""
    epsilon = Fraction(epsilon)
    question = build(TOP, epsilon)
    for value in (0, 17, TOP):
        counts = np.bincount(reports(question, value, f"{value}"), minlength=question.reports)
        assert p_value(counts, exact_shares(question, value)) > 1e-5
        wrong = exact_shares(build(TOP, epsilon * Fraction(13, 10)), value)
        if wrong.size == counts.size:  # other tables may have other columns
            assert p_value(counts, wrong) < 1e-9


def p_value(counts, shares):
    return stats.chisquare(counts, shares * counts.sum() / shares.sum()).pvalue


def exact_shares(question, value):
    if question.form == "value":
        x = 2 * value / question.threshold - 1
        weights = np.array(question.weights) / question.total
        return np.array([np.interp(x, question.means, column) for column in weights.T])
    if question.form == "wave":
        start = value * question.bins // (question.top + 1)
        shares = np.full(question.reports, question.low / question.total)
        shares[start : start + 2 * question.half + 1] = question.high / question.total
        return shares
    lie = question.lie / 2**32
    above = min(max(value + 0.5 - question.level, 0.0), 1.0)
    one = above * (1 - lie) + (1 - above) * lie
    return np.array([1 - one, one])
