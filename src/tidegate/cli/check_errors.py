"""The part of `tidegate check` about errors: by formula, and of rehearsals. Not private."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tidegate.cli.check_rehearsal import Rehearsal, RehearsalValues, rehearse
from tidegate.errors import SettingError
from tidegate.tables.plain_text import table

if TYPE_CHECKING:
    from tidegate.cli.check_streams_and_times import CheckedStreams, CheckedTimes
    from tidegate.plan.data_profile import DataProfile

_EPSILONS = ("0.1", "0.3", "1", "3")
_GOOD = 0.05  # relative error of a total that the suggested command aims at
_USELESS = 0.5  # relative error of a total that tells nothing
_STEPS = 1000  # of a coarse resolution, for few values


@dataclass(frozen=True)
class ExpectedErrors:
    """The errors of one epsilon, relative to the size of all values."""

    whole: float  # half of the interval of a total, by formula
    part: float  # of a sixteenth of it
    rounding: float
    rehearsed: Rehearsal | None
    resolution: Fraction

    @property
    def total(self) -> float:
        """The error of a total: the formula's, or that of rehearsals if it is larger."""
        return max(self.whole, self.rehearsed.error if self.rehearsed else 0.0)

    @property
    def useless(self) -> bool:
        """Whether rehearsals were far off, or their intervals missed the true total."""
        tried = self.rehearsed
        return tried is not None and (tried.misses or tried.error > _USELESS)


def expected_errors(
    profile: DataProfile,
    bounds: tuple[Fraction, Fraction],
    thought: dict[str, str | None],
    cuts: tuple[float, float],
    about: tuple[CheckedStreams, CheckedTimes, RehearsalValues],
) -> dict[str, ExpectedErrors | None]:
    """By epsilon; None: hopeless."""
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
        level = min(max(cap, pipeline.lattice.step), float(bound))
        assumed: dict[str, Any] = {"threshold": repr(level), "floor": floor if lower else None}
        whole, part = (
            half_width(pipeline, each) / (total * each.length / length)
            for each in expect(pipeline, [length, max(1, length // 16)], **assumed)
        )
        resolution = pipeline.resolution
        rounding = profile.rounded(resolution, bound, lower)
        tried = rehearse(pipeline, rehearsed)
        found[budget] = ExpectedErrors(whole, part, rounding, tried, resolution)
    return found


def error_table(errors: dict[str, ExpectedErrors | None], streams: CheckedStreams) -> str:
    """A row for every epsilon."""
    of_key = " of a key" if streams.by is not None else ""
    head = ["epsilon", f"a total{of_key} (95 %)", "a sixteenth of it", "rounding moves it by"]
    tried = [one.rehearsed for one in errors.values() if one is not None and one.rehearsed]
    if tried:
        head += [f"{tried[0].runs} rehearsals: off by", "interval held"]
    rows = []
    for budget, error in errors.items():
        if error is None:
            rows.append([budget, "hopeless", *[""] * (len(head) - 2)])
            continue
        widths = (f"± {width:.1%}" for width in (error.whole, error.part))
        cells = [budget, *widths, f"{error.rounding:.2%}"]
        rows.append([*cells, *(error.rehearsed.cells() if error.rehearsed else ())])
    return table(head, rows)


def good_epsilon(errors: dict[str, ExpectedErrors | None]) -> tuple[str, ExpectedErrors] | None:
    """The smallest that is good enough, or the best, and its errors; None: all are hopeless."""
    known = {budget: error for budget, error in errors.items() if error is not None}
    useful = {budget: error.total for budget, error in known.items() if not error.useless}
    totals = useful or {budget: error.whole for budget, error in known.items()}
    if not totals:
        return None
    good = [budget for budget, error in totals.items() if error <= _GOOD]
    chosen = good[0] if good else min(totals, key=totals.__getitem__)
    return chosen, known[chosen]


def doubts_of_errors(errors: dict[str, ExpectedErrors | None], heavy: bool, bound: Fraction) -> str:
    """Why some rehearsals were useless; empty: none was. `heavy`: much lies above the cap."""
    bad = {budget: one for budget, one in errors.items() if one is not None and one.useless}
    if not bad:
        return ""
    why = "A few large values make up much of the total, and no release sees how large they are"
    if not heavy:
        coarser = 10 ** (len(str(int(bound / _STEPS))) - 1)
        finest = min(one.resolution for one in bad.values())
        step = f", or --resolution {coarser}" if coarser > finest else ""
        why = f"There are too few rows to find a good cap. Try a smaller --bound{step}"
    return (
        f"Warning: at epsilon {', '.join(bad)} rehearsed totals are off by more than half, or most "
        f"of their intervals miss the true total. {why}."
    )
