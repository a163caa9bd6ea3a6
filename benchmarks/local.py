"""The local model: rates of reports, density estimation against a dense matrix, variances."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from benchmarks.table import Row, at_least, at_most, measured
from benchmarks.timing import again, best, best_in_turns
from tidegate.lattice import FloatArray, IntArray
from tidegate.local import mechanisms
from tidegate.local.mechanisms.optimal_by_linear_program import expected_shares_for_optimal
from tidegate.local.questions import Question, TailQuestion, WaveQuestion
from tidegate.local.square_wave_density import estimate_density
from tidegate.randomness import WordSource

_THRESHOLD = 40
_BOUND = 1657


def measure(quick: bool) -> list[Row]:
    parts = {
        "rates of reports": _rates,
        "density estimation": _density,
        "variances of the tables": _variances,
    }
    return measured(parts, quick)


def _words() -> WordSource:
    return tg.seeded(1).new_epoch().keystream("benchmark", b"").at()


def _rates(quick: bool) -> list[Row]:
    count, repeats = (10**6, 3) if quick else (10**7, 5)
    values: IntArray = np.resize(tg.synthetic.baskets(1 << 20), count).astype(np.int64)
    rows = []
    for epsilon in (Fraction(1), Fraction(5)):
        questions: dict[str, Question] = {
            "stochastic rounding": mechanisms.stochastic_rounding(_THRESHOLD, epsilon),
            "piecewise": mechanisms.piecewise(_THRESHOLD, epsilon),
            "piecewise, threshold of 4e6 steps": mechanisms.piecewise(4_000_000, epsilon),
            "hybrid": mechanisms.hybrid(_THRESHOLD, epsilon),
            "optimal": mechanisms.optimal(_THRESHOLD, epsilon),
            "square wave": mechanisms.square_wave(_BOUND, epsilon),
            "tail": TailQuestion.at(20.0, epsilon, dither=1.0),
        }
        for name, question in questions.items():
            many = name.endswith("steps")
            stretched = values * (4_000_000 // _THRESHOLD) if many else values

            def answering(
                question: Question = question, values: IntArray = stretched
            ) -> Callable[[], object]:
                return partial(question.answers, values, _words())

            rate = count / best(answering, repeats) / 1e6
            rows.append(at_least(f"{name}, e={epsilon}", rate, 5, "M reports/s"))
    return rows


def _density(quick: bool) -> list[Row]:
    repeats, steps = (3, 200) if quick else (7, 400)
    rows = []
    for text in ("0.2", "1", "2"):
        question = mechanisms.square_wave(_BOUND, Fraction(text), bins=1024)
        reports = question.answers(tg.synthetic.baskets(65_536), _words())
        counts = np.bincount(reports, minlength=question.reports)
        matrix = _matrix(question)
        transposed = np.ascontiguousarray(matrix.T)
        ours = partial(estimate_density, question, counts, steps=steps, gain=1e-300)
        rival = partial(_dense, matrix, transposed, counts, steps)
        fast, slow = best_in_turns([again(ours), again(rival)], repeats)
        note = f"{fast / steps * 1e6:.0f} us a step, dense {slow / steps * 1e6:.0f} us"
        name = f"EM, 65,536 reports, 1,024 bins, e={text}"
        rows.append(at_least(f"{name}, over a dense matrix", slow / fast, 30, "x", note))
        apart = float(np.abs(ours().shares - rival()).max())
        rows.append(at_most(f"{name}, largest difference", apart, 1e-6))
        whole = estimate_density(question, counts)
        seconds = best(again(partial(estimate_density, question, counts)), repeats)
        rows.append(Row(f"{name}, whole", seconds, "s", note=f"{whole.steps} steps"))
    return rows


def _matrix(question: WaveQuestion) -> FloatArray:
    matrix = np.full((question.reports, question.bins), question.low / question.total)
    for each in range(question.bins):
        matrix[each : each + 2 * question.half + 1, each] = question.high / question.total
    return matrix


def _dense(
    matrix: FloatArray, transposed: FloatArray, counts: NDArray[np.int64], steps: int
) -> FloatArray:
    """The rival does all that ours does: the next shares, and the log-likelihood for the rule."""
    shares: FloatArray = np.full(matrix.shape[1], 1 / matrix.shape[1])
    for _ in range(steps):
        cells = matrix @ shares
        shares = shares * (transposed @ (counts / cells))
        shares /= shares.sum()
        counts @ np.log(cells)
    return shares


def _variances(_quick: bool) -> list[Row]:
    x = np.linspace(-1, 1, 4_001)
    rows = []
    formulas = (
        (
            "stochastic rounding",
            mechanisms.stochastic_rounding,
            mechanisms.stochastic_rounding_variance,
        ),
        ("piecewise", mechanisms.piecewise, mechanisms.piecewise_variance),
        ("hybrid", mechanisms.hybrid, mechanisms.hybrid_variance),
    )
    for name, build, formula in formulas:
        for text in ("0.1", "0.5", "1", "2", "3", "4", "5"):
            question = build(_THRESHOLD, Fraction(text))
            apart = question.variance(x) / formula(x, Fraction(text)) - 1
            largest = float(np.abs(apart).max()) * 100
            note = f"{len(question.weights)} x {question.reports} weights"
            title = f"{name}, e={text}, variance against the formula"
            rows.append(at_most(title, largest, 1.0, "%", note))
    shares = expected_shares_for_optimal(x)
    for text, target in (("0.7", None), ("1", 1.11), ("2", 1.34), ("3", None), ("5", None)):
        epsilon = Fraction(text)
        question = mechanisms.optimal(_THRESHOLD, epsilon)
        gain = float(
            shares @ mechanisms.hybrid_variance(x, epsilon) / (shares @ question.variance(x))
        )
        note = f"{len(question.weights)} x {question.reports} weights; values thin out as e^(-6v/T)"
        title = f"optimal, e={text}, variance below hybrid"
        row = Row(title, gain, "x", note=note)
        rows.append(row if target is None else at_least(title, gain, target, "x", note))
    return rows
