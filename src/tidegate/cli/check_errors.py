"""The part of `tidegate check` about errors: by formula, and from rehearsals. Not private."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tidegate.cli.check_rehearsal import Rehearsal, RehearsalValues, check_by_rehearsal
from tidegate.errors import SettingError
from tidegate.tables.plain_text import table

if TYPE_CHECKING:
    from tidegate.cli.check_streams import CheckedStreams
    from tidegate.cli.check_times import CheckedTimes
    from tidegate.plan.data_profile import DataProfile
    from tidegate.run.pipeline import Pipeline

_EPSILONS = ("0.1", "0.3", "1", "3")
_GOOD = 0.05  # relative error of a total that the suggested command aims at
_USELESS = 0.5  # relative error of a total that tells nothing
MUCH_LOST = 0.02  # the share of a total that a bound or a cap cuts off
_STEPS = 1000  # steps of a coarse resolution, for few values
_COARSE = 0.05  # share of a sum that rounding to the step between thresholds moves
_CALM = "1/1000"  # roughness of a level that hardly moves: then noise is the only error


@dataclass(frozen=True)
class ExpectedErrors:
    """The errors to expect with one epsilon, relative to the sum of absolute values."""

    noise: float  # half of the interval of a total, by formula, if noise were the only error
    part: float  # the same for a sixteenth of the rows
    whole: float  # for a total, with what a plan assumes: a level that drifts, a tail that is cut
    rounding: float
    rehearsed: Rehearsal | None
    resolution: Fraction  # what thresholds are multiples of
    coarse: Fraction | None  # the default step between thresholds, which was not taken

    @property
    def total(self) -> float:
        """The error of a total: measured in rehearsals (at least that of the noise), or planned."""
        return max(self.noise, self.rehearsed.error) if self.rehearsed else self.whole

    @property
    def useless(self) -> bool:
        """Whether rehearsals had large errors, or their intervals missed the true total."""
        tried = self.rehearsed
        return tried is not None and (tried.misses or tried.error > _USELESS)


def expected_errors(
    profile: DataProfile,
    bounds: tuple[Fraction, Fraction],
    thought: dict[str, str | None],
    cuts: tuple[float, float],
    about: tuple[CheckedStreams, CheckedTimes, RehearsalValues],
) -> dict[str, ExpectedErrors | None]:
    """The errors to expect for each epsilon. None: this epsilon is too small."""
    from tidegate.plan import expect, half_width

    (lower, bound), (floor, cap), (streams, timing, values) = bounds, cuts, about
    length, rehearsed = streams.values(profile), values.values()
    positive_sum = profile.sum - profile.negative_sum
    total = max(positive_sum - (profile.negative_sum if lower else 0.0), 1e-300)
    total *= streams.share(profile)
    given = {
        "horizon": streams.horizon(profile),
        "resolution": thought["resolution"],
        "lower": lower,
    }
    found: dict[str, ExpectedErrors | None] = {}
    for budget in _EPSILONS if thought["epsilon"] is None else (thought["epsilon"],):
        try:
            pipeline = streams.pipeline(budget, bound, timing, **given)
        except SettingError as problem:
            if problem.setting != "epsilon" or "too small" not in problem.problem:
                raise
            found[budget] = None
            continue
        coarse = too_coarse(pipeline, profile, (lower, bound))
        if coarse is not None:
            step = profile.fine_resolution(coarse, bound, lower)
            pipeline = streams.pipeline(budget, bound, timing, **{**given, "resolution": step})
        level = min(max(cap, pipeline.lattice.step), float(bound))
        assumed: dict[str, Any] = {"threshold": repr(level), "floor": floor if lower else None}
        lengths = [length, max(1, length // 16)]
        noise, part = (
            half_width(pipeline, replace(each, excess=None, prediction_error=0.0))
            / (total * each.length / length)
            for each in expect(pipeline, lengths, **assumed, roughness=_CALM)
        )
        (planned,) = expect(pipeline, [length], **assumed)
        whole = half_width(pipeline, planned) / total
        tried = check_by_rehearsal(pipeline, rehearsed)
        rounding = profile.rounded(pipeline.resolution, bound, lower)
        errors = noise, part, whole, rounding
        step = pipeline.threshold_step or pipeline.resolution
        found[budget] = ExpectedErrors(*errors, tried, step, coarse)
    return found


def too_coarse(
    pipeline: Pipeline, profile: DataProfile, bounds: tuple[Fraction, Fraction]
) -> Fraction | None:
    """The default step between thresholds, if it is too coarse for most values; else None.

    Rounding to it would say so; values themselves are rounded far more finely.
    """
    lower, bound = bounds
    step = pipeline.threshold_step
    coarse = step is not None and profile.rounded(step, bound, lower) >= _COARSE
    return step if coarse else None


def error_table(errors: dict[str, ExpectedErrors | None], streams: CheckedStreams) -> str:
    """The errors as a table, one row for each epsilon."""
    of_key = " of a key" if streams.by is not None else ""
    head = ["epsilon", f"noise in a total{of_key}", "in a sixteenth", "rounding moves it by"]
    tried = [one.rehearsed for one in errors.values() if one is not None and one.rehearsed]
    if tried:
        head += [f"{tried[0].runs} rehearsals: off by", "95 % interval", "held"]
    rows = []
    for budget, error in errors.items():
        if error is None:
            rows.append([budget, "hopeless", *[""] * (len(head) - 2)])
            continue
        widths = (f"± {width:.1%}" for width in (error.noise, error.part))
        cells = [budget, *widths, f"{error.rounding:.2%}"]
        rows.append([*cells, *(error.rehearsed.cells() if error.rehearsed else ())])
    return table(head, rows)


def epsilon_with_good_errors(
    errors: dict[str, ExpectedErrors | None],
) -> tuple[str, ExpectedErrors] | None:
    """The smallest good epsilon, or else the best, with its errors. None: none is usable."""
    known = {budget: error for budget, error in errors.items() if error is not None}
    useful = {budget: error.total for budget, error in known.items() if not error.useless}
    totals = useful or {budget: error.whole for budget, error in known.items()}
    if not totals:
        return None
    good = [budget for budget, error in totals.items() if error <= _GOOD]
    chosen = good[0] if good else min(totals, key=totals.__getitem__)
    return chosen, known[chosen]


def doubts_of_errors(
    errors: dict[str, ExpectedErrors | None],
    profile: DataProfile,
    bounds: tuple[Fraction, Fraction],
    taken: tuple[float, float],
) -> list[str]:
    """Why rehearsals were useless, and which resolution would help. Empty: nothing is wrong.

    `taken`: which share of a total the bound cuts off, and which a cap would.
    """
    known = {budget: one for budget, one in errors.items() if one is not None}
    bad = {budget: one for budget, one in known.items() if one.useless}
    found = _check_errors_of_resolutions(known, profile, bounds)
    if not bad:
        return found
    (lower, bound), (by_bound, by_cap) = bounds, taken
    if by_bound >= MUCH_LOST:
        why = (
            f"--bound {float(bound):g} cuts {by_bound:.1%} off a total, and no interval holds that"
        )
    elif by_cap >= MUCH_LOST:
        why = "A few large values make up much of the total, and no release sees how large they are"
    elif found:
        why = "The resolution is too coarse for these values"
    else:
        finest = min(one.resolution for one in bad.values())
        coarser = Fraction(10 ** (len(str(int(bound / _STEPS))) - 1))
        coarser = profile.fine_resolution(coarser, bound, lower)
        step = f", or --resolution {written(coarser)}" if coarser > finest else ""
        why = f"There are too few rows to find a good cap. Try a smaller --bound{step}"
    return [
        *found,
        f"Warning: at epsilon {', '.join(bad)} rehearsed totals are off by more than half, or most "
        f"of their intervals miss the true total. {why}.",
    ]


def _check_errors_of_resolutions(
    known: dict[str, ExpectedErrors], profile: DataProfile, bounds: tuple[Fraction, Fraction]
) -> list[str]:
    """The rounding error of resolutions that are too coarse, and which would be fine enough."""
    from tidegate.plan.data_profile import ROUNDED

    lower, bound = bounds
    found: dict[str, list[str]] = {}
    for budget, one in known.items():
        if one.coarse is not None:
            step = one.coarse
            said = (
                f"(The default step between thresholds there is {written(step)}, too coarse for "
                f"these values. The table assumes --resolution {written(one.resolution)}.)"
            )
        elif one.rounding >= ROUNDED:
            fine = profile.fine_resolution(one.resolution, bound, lower)
            said = (
                f"Warning: rounding to --resolution {written(one.resolution)} moves a total by "
                f"{one.rounding:.1%}. Use --resolution {written(fine)}."
            )
        else:
            continue
        found.setdefault(said, []).append(budget)
    return [
        said.replace(" there is", f" at epsilon {', '.join(budgets)} is")
        for said, budgets in found.items()
    ]


def written(resolution: Fraction) -> str:
    """A resolution as a user writes it in an option."""
    return f"{float(resolution):.15g}"
