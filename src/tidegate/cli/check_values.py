"""The part of `tidegate check` about the values: numbers, missing ones, quantiles, negatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.exact_numbers import exact
from tidegate.tables.plain_text import plain_number

if TYPE_CHECKING:
    from tidegate.plan.data_profile import DataProfile


def nothing_to_check(profile: DataProfile, column: str | None) -> str:
    """The reason why the file cannot be checked."""
    if not profile.rows:
        return "the input has no rows"
    named = f" in {column!r}" if column else ""
    return (
        f"all {profile.rows:,} rows have no number{named}: every value would count as 0. Is it the "
        "right --column?"
    )


def check_facts(profile: DataProfile, lower: str | None) -> list[tuple[str, str]]:
    """What is in the values, line by line. Not private."""
    rows = profile.rows
    places = f"{profile.places} place{'s' if profile.places > 1 else ''}"
    kind = f"decimals, {places}" if profile.places else "whole numbers"
    missing = f"{profile.missing:,} ({profile.missing / rows:.2%}); each counts as 0"
    low, quarter, middle, upper, high, higher = profile.quantiles(
        0.01, 0.25, 0.5, 0.75, 0.99, 0.999
    )
    facts = [
        ("rows", f"{rows:,}"),
        ("numbers", kind),
        ("missing", missing if profile.missing else "none"),
        ("sum", plain_number(profile.sum)),
        ("smallest", plain_number(profile.smallest)),
        ("1 %", plain_number(low)),
        ("quartiles", f"{plain_number(quarter)}   {plain_number(middle)}   {plain_number(upper)}"),
        ("99 %", f"{plain_number(high)}   (99.9 %: {plain_number(higher)})"),
        ("largest", plain_number(profile.largest)),
    ]
    if profile.infinite:
        facts.append(("infinite", f"{profile.infinite:,} rows; each counts as the bound"))
    if (marked := profile.marker()) is not None:
        value, share = marked
        mark = f"about {share:.2%} of the rows are exactly {plain_number(value)}: "
        mark += "if that means missing"
        facts.append(("marker", f"{mark}, leave these empty, or they count as a number"))
    if profile.negative:
        found = f"{profile.negative:,} rows ({profile.negative / rows:.2%})"
        off = f"each counts as 0, so a total is too high by {plain_number(-profile.negative_sum)}"
        kept = lower is not None and exact("lower", lower) < 0
        facts.append(("negative", found if kept else f"{found}: without --lower {off}"))
    return facts
