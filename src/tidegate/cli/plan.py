"""`tidegate plan`: the errors to expect, before any budget is spent."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.exits import plain_errors
from tidegate.cli.query import percent, shown, table
from tidegate.errors import SettingError

if TYPE_CHECKING:
    from tidegate.pipeline import Pipeline
    from tidegate.plan import Choice, Expectation

_LENGTHS = "60,3600,86400"
# Where an epsilon is looked for, in powers of ten: beyond 100 it protects nothing.
_SMALLEST, _LARGEST = -6, 2
# Fan-outs of 2 and 3 are never best, and would take as long as all of these together.
_FANOUTS = (4, 5, 6, 8, 10, 12, 16, 20, 24, 32)


def plan(
    bound: Annotated[str, typer.Option(help="Public upper bound of a value.")],
    epsilon: Annotated[
        str | None, typer.Option(help="Privacy budget, e.g. 0.1 or 1/10; not with --target.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="X", help="Which epsilon gives an interval of ± X? With --length."),
    ] = None,
    length: Annotated[
        int | None, typer.Option(help="The length of the ranges that --target speaks of.")
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Probability that an interval holds the truncated sum.")
    ] = 0.95,
    lengths: Annotated[
        str, typer.Option(help="Range lengths to predict, in values, separated by commas.")
    ] = _LENGTHS,
    threshold: Annotated[
        str | None,
        typer.Option(help="The threshold to assume, from public knowledge; default: the bound."),
    ] = None,
    roughness: Annotated[
        str, typer.Option(help="How far a block's mean is from its prediction, in thresholds.")
    ] = "1/3",
    mean: Annotated[
        str | None,
        typer.Option(help="A guess at the mean value: adds errors relative to the sum."),
    ] = None,
    horizon: Annotated[int, typer.Option(help="Longest range to answer well.")] = 2**20,
    holdout: Annotated[int, typer.Option(help="Values spent on choosing the threshold.")] = 2**16,
    resolution: Annotated[str, typer.Option(help="Values are rounded to multiples of this.")] = "1",
    unit: Annotated[
        str, typer.Option(help="What epsilon protects: event, window:W or user-horizon:K.")
    ] = "event",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Predict the errors of a release from its settings alone; no data is read.

    The noise part is exact. The prediction part is what values inside a block add where a range
    cuts it; it depends on the data, and rests on the assumed roughness (the paper's 1/3 is
    pessimistic for a calm stream). Errors speak of the sum of truncated values.

    Examples:

    \b
      tidegate plan --epsilon 0.1 --bound 1657
      tidegate plan --epsilon 0.1 --bound 1657 --threshold 50 --mean 20 --lengths 3600,86400
      tidegate plan --bound 1657 --threshold 50 --target 5000 --length 86400
    """  # noqa: D301  # \b keeps the lines of the examples
    with plain_errors():
        from tidegate import tops
        from tidegate.cli.pipelines import unit as parsed_unit
        from tidegate.perturb.forest import level_count
        from tidegate.settings import exact, positive

        protects = parsed_unit(unit)

        def pipeline(budget: str | Fraction, skipped: int | None = None) -> Pipeline:
            return tops(
                budget, bound, horizon=horizon, holdout=holdout, resolution=resolution,
                unit=protects, skipped=skipped,
            )  # fmt: skip

        asked = _lengths(lengths)
        if not 0 < exact("confidence", confidence) < 1:
            raise SettingError("confidence", f"must lie between 0 and 1, not {confidence}")
        prediction = _Prediction(threshold, roughness, confidence)
        wanted: Target | None = None
        if target is not None:
            if epsilon is not None or length is None:
                raise SettingError("target", "needs --length, and no --epsilon: that is looked for")
            wanted = _answered(
                lambda skipped, budget: prediction.of(pipeline(budget, skipped), length).half_width,
                length,
                positive("target", target),
                level_count(16, pipeline(Fraction(1)).perturber.horizon),
            )
            if lengths == _LENGTHS:
                asked = [length]
            epsilon = str(wanted.epsilon)
        elif length is not None:
            raise SettingError("length", "goes with --target; --lengths names those to predict")
        if epsilon is None:
            raise SettingError("epsilon", "is missing: give --epsilon, or --target and --length")
        chosen = pipeline(epsilon)
        report = Report(
            chosen,
            [prediction.of(chosen, asked_length) for asked_length in asked],
            _best(chosen, asked, roughness),
            wanted,
            confidence,
            None if mean is None else float(positive("mean", mean)),
            threshold is None,
        )
        typer.echo(report.as_json() if as_json else report.as_text())


@dataclass(frozen=True)
class Target:
    """A question: which ε makes ranges of `length` values accurate to ± `half_width`?"""

    length: int
    half_width: float
    epsilon: Fraction
    skipped: int  # of the tree that needs the least ε
    least: Fraction

    @property
    def better(self) -> bool:
        """Whether another tree than the usual one needs noticeably less."""
        return self.least < self.epsilon * Fraction(95, 100)


@dataclass(frozen=True)
class Row:
    """An expectation and the half width of its interval."""

    expectation: Expectation
    half_width: float


@dataclass(frozen=True)
class _Prediction:
    """What is assumed of the data."""

    threshold: str | None
    roughness: str
    confidence: float

    def of(self, pipeline: Pipeline, length: int) -> Row:
        """What to expect of a range of `length` values."""
        import numpy as np

        from tidegate.plan import expect
        from tidegate.queries import quantile as quantile

        (expectation,) = expect(
            pipeline, [length], threshold=self.threshold, roughness=self.roughness
        )
        step = pipeline.lattice.step
        law = pipeline.fixed_stages[0].noise_law(round(expectation.threshold / step))
        times = quantile(
            np.array([expectation.noise_error**2]),
            np.array([law.largest_variance * step**2]),
            self.confidence,
        )
        return Row(expectation, float(times[0]) * expectation.standard_error)


def _answered(
    half_width: Callable[[int | None, Fraction], float], length: int, target: Fraction, levels: int
) -> Target:
    """The ε that is needed with the usual tree, and with the one that needs the least."""
    half_width(None, Fraction(1))  # settings that are wrong in any case are refused here
    epsilon = needed_epsilon(partial(half_width, None), target, falling=False)
    if epsilon is None:
        raise SettingError(
            "target",
            f"no epsilon up to {10**_LARGEST} gives ± {float(target):g}: allow a larger error, or "
            "assume a smaller threshold or roughness",
        )
    least, skipped = epsilon, 0
    for number in range(levels):
        found = needed_epsilon(partial(half_width, number), target, falling=True)
        if found is not None and found < least:
            least, skipped = found, number
    return Target(length, float(target), epsilon, skipped, least)


def needed_epsilon(
    half_width: Callable[[Fraction], float], target: Fraction, *, falling: bool
) -> Fraction | None:
    """The smallest ε of three digits whose predicted half width is at most `target`.

    For a fixed tree more ε is less error (`falling`), and bisection finds it. The rule that chooses
    blocks by ε makes jumps, up and down: there, steps of two digits find the first that is enough.
    None: not even the largest ε is.
    """

    def enough(epsilon: Fraction) -> bool:
        try:
            return half_width(epsilon) <= float(target)
        except SettingError as problem:
            if problem.setting != "epsilon":
                raise
            return False  # so small that noise would not fit 64 bits

    fine = _grid(100)
    if falling:
        first, last = 0, len(fine) - 1
        if not enough(fine[last]):
            return None
    else:
        coarse = _grid(10)
        found = next((step for step, epsilon in enumerate(coarse) if enough(epsilon)), None)
        if found is None:
            return None
        last = bisect_left(fine, coarse[found])
        first = bisect_left(fine, coarse[found - 1]) + 1 if found else last
    return fine[bisect_left(range(last), True, lo=first, key=lambda at: enough(fine[at]))]


def _grid(digits: int) -> list[Fraction]:
    """0.000001 to 100 in steps of the last digit: 10 for two digits, 100 for three."""
    return [
        Fraction(number, digits) * Fraction(10) ** power
        for power in range(_SMALLEST, _LARGEST)
        for number in range(digits, 10 * digits)
    ] + [Fraction(10) ** _LARGEST]


def _lengths(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise SettingError("lengths", f"must be whole numbers such as 60,3600,86400, not {text!r}")
    return found


def _best(pipeline: Pipeline, lengths: list[int], roughness: str) -> Choice:
    from tidegate.plan import best_hierarchy

    return best_hierarchy(
        epsilon=pipeline.perturber.epsilon,  # type: ignore[union-attr]  # tops has a hierarchy
        horizon=pipeline.perturber.horizon,
        lengths=lengths,
        fanouts=_FANOUTS,
        roughness=roughness,
    )[0]


@dataclass(frozen=True)
class Report:
    """What was predicted, for people and for programs."""

    pipeline: Pipeline
    rows: list[Row]
    best: Choice
    target: Target | None
    confidence: float
    mean: float | None
    worst: bool  # the bound was assumed as threshold

    def _present_error(self) -> float:
        """Of the tree that would be used, over all lengths, in thresholds: as `Choice.error`."""
        squares = [row.expectation.standard_error**2 for row in self.rows]
        return math.sqrt(sum(squares) / len(squares)) / self._threshold

    @property
    def _threshold(self) -> float:
        return self.rows[0].expectation.threshold

    @property
    def _skipped(self) -> int:
        tree = self.best.hierarchy
        return round(math.log(tree.block, tree.fanout))

    def as_text(self) -> str:
        """Tables and sentences."""
        head = ["length", "noise", "prediction", "std. error", f"± ({percent(self.confidence)})"]
        cells = [
            [
                f"{row.expectation.length:,}",
                shown(row.expectation.noise_error),
                shown(row.expectation.prediction_error),
                shown(row.expectation.standard_error),
                shown(row.half_width),
            ]
            for row in self.rows
        ]
        if self.mean is not None:
            head.append("± of the sum")
            for line, row in zip(cells, self.rows, strict=True):
                share = row.half_width / (row.expectation.length * self.mean)
                line.append(f"{share:.2%}")
        assumed = f"Threshold {self._threshold:g} assumed"
        if self.worst:
            assumed += ", the bound: the worst case. --threshold says what is likely"
        tree = self.pipeline.perturber
        lines = []
        if self.target is not None:
            lines += [
                f"ε = {float(self.target.epsilon):g} gives ± {self.target.half_width:g} or less "
                f"({percent(self.confidence)}) on ranges of {self.target.length:,} values.",
            ]
            if self.target.better:
                lines.append(
                    f"With --skipped {self.target.skipped}, ε = {float(self.target.least):g} does."
                )
            lines.append("")
        lines += [table(head, cells), "", f"{self.pipeline.guarantee}. {assumed}."]
        present, best = self._present_error(), self.best
        if best.error < 0.99 * present:
            lines.append(
                f"Best tree for these lengths: --fanout {best.hierarchy.fanout} --skipped "
                f"{self._skipped} (blocks of {best.hierarchy.block:,}), error {best.error:.4g} "
                f"thresholds instead of {present:.4g} with blocks of {tree.block:,}."
            )
        else:
            lines.append(
                f"Blocks of {tree.block:,}, chosen by epsilon, are about the best for these "
                f"lengths: error {present:.4g} thresholds."
            )
        return "\n".join(lines)

    def as_json(self) -> str:
        """The same as data."""
        promise = self.pipeline.guarantee
        facts: dict[str, Any] = {
            "guarantee": str(promise),
            "epsilon": str(promise.epsilon),
            "threshold": self._threshold,
            "block": self.pipeline.perturber.block,
            "confidence": self.confidence,
            "expected": [
                {
                    "length": row.expectation.length,
                    "noise_error": row.expectation.noise_error,
                    "prediction_error": row.expectation.prediction_error,
                    "standard_error": row.expectation.standard_error,
                    "half_width": row.half_width,
                    **(
                        {}
                        if self.mean is None
                        else {"relative": row.half_width / (row.expectation.length * self.mean)}
                    ),
                }
                for row in self.rows
            ],
            "error_in_thresholds": self._present_error(),
            "best": {
                "fanout": self.best.hierarchy.fanout,
                "skipped": self._skipped,
                "block": self.best.hierarchy.block,
                "error_in_thresholds": self.best.error,
            },
        }
        if self.target is not None:
            facts["target"] = {
                "length": self.target.length,
                "half_width": self.target.half_width,
                "epsilon": str(self.target.epsilon),
            }
            if self.target.better:
                better = {"skipped": self.target.skipped, "epsilon": str(self.target.least)}
                facts["target"]["with_other_tree"] = better
        return json.dumps(facts, indent=1, ensure_ascii=False)
