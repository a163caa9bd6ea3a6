"""`tidegate plan`: the errors to expect, before any budget is spent."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

import typer

from tidegate.cli.exit_codes_and_signals import errors_as_exit_codes
from tidegate.cli.option_builders import PLANNED, offering_options
from tidegate.cli.pipeline_from_options import DEFAULT_PRESET
from tidegate.cli.pipeline_from_options import unit_from_option as parsed_unit
from tidegate.cli.plan_report import PlanReport, PlanRow
from tidegate.errors import SettingError
from tidegate.exact_numbers import exact, positive, said
from tidegate.methods.adaptive import adaptive
from tidegate.methods.tops import tops
from tidegate.plan import Choice, best_hierarchy, expect, half_width
from tidegate.plan.best_tree_and_needed_epsilon import AccuracyTarget, compare_trees
from tidegate.record.record import record_confidence
from tidegate.run.pipeline import Pipeline

_LENGTHS = "60,3600,86400"
# From a level that hardly moves to one that goes anywhere, in thresholds over a horizon.
_OTHERS = ("0.01", "0.1", "1", "10")
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
    length: Annotated[int | None, typer.Option(help="Length of the ranges for --target.")] = None,
    confidence: Annotated[
        float, typer.Option(help="Probability that an interval holds the sum.")
    ] = 0.95,
    lengths: Annotated[
        str, typer.Option(help="Range lengths to predict, in values, separated by commas.")
    ] = _LENGTHS,
    threshold: Annotated[
        str | None,
        typer.Option(help="The threshold to assume, from public knowledge; default: the bound."),
    ] = None,
    lower: Annotated[
        str | None, typer.Option(help="Public lower bound of a value, 0 or below (default 0).")
    ] = None,
    floor: Annotated[
        str | None,
        typer.Option(help="The lowest value to assume that counts; default: --lower."),
    ] = None,
    roughness: Annotated[
        str,
        typer.Option(
            help="How far a block's mean is from its prediction, in thresholds (adaptive: how far "
            "the level drifts over a horizon)."
        ),
    ] = "1/3",
    mean: Annotated[
        str | None,
        typer.Option(help="A guess at the mean value: adds errors relative to the sum."),
    ] = None,
    horizon: Annotated[int, typer.Option(help="Longest range to answer well.")] = 2**20,
    holdout: Annotated[
        int | None,
        typer.Option(help="Values that choose the threshold and are not released."),
    ] = None,
    resolution: Annotated[
        str | None,
        typer.Option(help="Values are rounded to multiples of this (default: by the bound)."),
    ] = None,
    unit: Annotated[
        str, typer.Option(help="What epsilon protects: event, window:W or user-horizon:K.")
    ] = "event",
    preset: Annotated[
        str,
        typer.Option(help="Method: adaptive or tops.", autocompletion=offering_options(PLANNED)),
    ] = DEFAULT_PRESET,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Predict errors from settings alone; no data is read.

    Errors depend on how much the level of the stream drifts (--roughness); the table also shows
    other assumptions. With --preset tops they refer to the sum of capped values: the noise part is
    exact, and the prediction part is what values inside a block add where a range cuts it.

    Examples:

    \b
      tidegate plan --epsilon 0.1 --bound 1657
      tidegate plan --epsilon 0.1 --bound 1657 --threshold 50 --mean 20 --lengths 3600,86400
      tidegate plan --bound 1657 --threshold 50 --target 5000 --length 86400
      tidegate plan --epsilon 0.1 --bound 1657 --threshold 50 --preset tops
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes():
        if preset not in PLANNED:
            raise SettingError("preset", f"must be adaptive or tops, not {said(preset)}")
        if threshold is not None and exact("threshold", threshold) > exact("bound", bound):
            raise SettingError(
                "threshold",
                f"must not exceed the bound {said(exact('bound', bound))}: no value does",
            )
        shared: dict[str, Any] = {
            "horizon": horizon,
            **({} if holdout is None else {"holdout": holdout}),
            "resolution": resolution,
            **({} if lower is None else {"lower": lower}),
            "unit": parsed_unit(unit),
        }

        def pipeline(budget: str | Fraction, skipped: int | None = None) -> Pipeline:
            if preset == "adaptive":
                return adaptive(budget, bound, **shared)
            return tops(budget, bound, skipped=skipped, **shared)

        asked = _plan_lengths(lengths)
        record_confidence(confidence)
        wanted: AccuracyTarget | None = None
        if target is not None:
            if epsilon is not None or length is None:
                raise SettingError("target", "needs --length, and no --epsilon: it finds one")
            wanted = compare_trees(
                pipeline,
                length,
                target,
                confidence=confidence,
                threshold=threshold,
                floor=floor,
                roughness=roughness,
            )
            if lengths == _LENGTHS:
                asked = [length]
            epsilon = str(wanted.epsilon)
        elif length is not None:
            raise SettingError("length", "needs --target; use --lengths for the ranges to predict")
        if epsilon is None:
            raise SettingError("epsilon", "is required, or --target and --length")
        chosen = pipeline(epsilon)

        def rows(assumed: str) -> list[PlanRow]:
            expected = expect(chosen, asked, threshold=threshold, floor=floor, roughness=assumed)
            return [PlanRow(each, half_width(chosen, each, confidence)) for each in expected]

        report = PlanReport(
            chosen,
            rows(roughness),
            _best_plan(chosen, asked, roughness) if chosen.estimator.adds_up else None,
            {} if chosen.estimator.adds_up else {assumed: rows(assumed) for assumed in _OTHERS},
            roughness,
            wanted,
            confidence,
            None if mean is None else float(positive("mean", mean)),
            threshold is None,
        )
        typer.echo(report.as_json() if as_json else report.as_text())


def _plan_lengths(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise SettingError(
            "lengths", f"must be whole numbers such as 60,3600,86400, not {said(text)}"
        )
    return found


def _best_plan(pipeline: Pipeline, lengths: list[int], roughness: str) -> Choice:
    return best_hierarchy(
        epsilon=pipeline.perturber.epsilon,
        horizon=pipeline.perturber.horizon,
        lengths=lengths,
        fanouts=_FANOUTS,
        roughness=roughness,
    )[0]
