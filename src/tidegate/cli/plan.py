"""`tidegate plan`: the errors to expect, before any budget is spent."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

import typer

from tidegate.cli.exits import plain_errors
from tidegate.cli.pipelines import unit as parsed_unit
from tidegate.cli.tables import percent, shown, table
from tidegate.errors import SettingError
from tidegate.pipeline import Pipeline
from tidegate.plan import Choice, Expectation, best_hierarchy, expect, half_width
from tidegate.plan.target import Target, compare_trees
from tidegate.presets import tops
from tidegate.queries import checked_confidence
from tidegate.settings import positive

_LENGTHS = "60,3600,86400"
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
        protects = parsed_unit(unit)

        def pipeline(budget: str | Fraction, skipped: int | None = None) -> Pipeline:
            return tops(
                budget, bound, horizon=horizon, holdout=holdout, resolution=resolution,
                unit=protects, skipped=skipped,
            )  # fmt: skip

        asked = _lengths(lengths)
        checked_confidence(confidence)
        wanted: Target | None = None
        if target is not None:
            if epsilon is not None or length is None:
                raise SettingError("target", "needs --length, and no --epsilon: that is looked for")
            wanted = compare_trees(
                pipeline,
                length,
                target,
                confidence=confidence,
                threshold=threshold,
                roughness=roughness,
            )
            if lengths == _LENGTHS:
                asked = [length]
            epsilon = str(wanted.epsilon)
        elif length is not None:
            raise SettingError("length", "goes with --target; --lengths names those to predict")
        if epsilon is None:
            raise SettingError("epsilon", "is missing: give --epsilon, or --target and --length")
        chosen = pipeline(epsilon)
        expected = expect(chosen, asked, threshold=threshold, roughness=roughness)
        report = Report(
            chosen,
            [Row(each, half_width(chosen, each, confidence)) for each in expected],
            _best(chosen, asked, roughness),
            wanted,
            confidence,
            None if mean is None else float(positive("mean", mean)),
            threshold is None,
        )
        typer.echo(report.as_json() if as_json else report.as_text())


@dataclass(frozen=True)
class Row:
    """An expectation and the half width of its interval."""

    expectation: Expectation
    half_width: float


def _lengths(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise SettingError("lengths", f"must be whole numbers such as 60,3600,86400, not {text!r}")
    return found


def _best(pipeline: Pipeline, lengths: list[int], roughness: str) -> Choice:
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
