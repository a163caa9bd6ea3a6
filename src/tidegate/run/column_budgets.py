"""Settings of a run over several columns: shares of the budget, and bounds for each.

One row has a value in each column, and a replaced row may replace them all: the columns are
released in sequence on the same rows, and their budgets add up. The shares divide ε exactly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, positive, said
from tidegate.guarantee import Guarantee, sequential

_MANY = 10**6  # larger sums of shares are not printed in an error
COUNT = "count"  # the column of the number of events, which means divide by
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def checked_column_names(names: Sequence[str]) -> list[str]:
    """Column names; each occurs once and can be part of a file name."""
    found = [str(name) for name in names]
    for name in found:
        if found.count(name) > 1:
            raise SettingError("column", f"{said(name)} is given twice")
    labels = [column_file_label(name).lower() for name in found]
    for at, one in enumerate(labels):
        if one in labels[:at]:
            raise SettingError("column", f"{said(found[at])} and another give files of one name")
    return found


def column_file_label(name: str) -> str:
    """A column's name as part of the name of a file.

    >>> column_file_label("Tip amount ($)")
    'Tip_amount'
    """
    return _UNSAFE.sub("_", name).strip("_") or "column"


def shares_of(names: Sequence[str], given: Mapping[str, Number] | None) -> dict[str, Fraction]:
    """The share of ε for each column. Columns without a given share divide the rest evenly.

    >>> shares_of(["fare", "tip", "toll"], {"fare": "0.5"})
    {'fare': Fraction(1, 2), 'tip': Fraction(1, 4), 'toll': Fraction(1, 4)}
    """
    known = {name: positive("share", share) for name, share in (given or {}).items()}
    for name in known:
        if name not in names:
            raise SettingError("share", f"{said(name)} is not a column of this run")
    rest, left = 1 - sum(known.values(), Fraction(0)), [name for name in names if name not in known]
    if (left and rest <= 0) or (not left and rest != 0):
        most = "must leave something for the other columns" if left else "must add up to 1"
        total = f"{float(1 - rest):g}" if 1 - rest < _MANY else "far more"
        raise SettingError("share", f"{most}; the shares given add up to {said(total)}")
    return {name: known[name] if name in known else rest / len(left) for name in names}


def per_column(setting: str, names: Sequence[str], given: Any) -> dict[str, Any]:
    """A setting for each column: one for all, or a mapping by name."""
    if not isinstance(given, Mapping):
        return dict.fromkeys(names, given)
    for name in given:
        if name not in names:
            raise SettingError(setting, f"{said(name)} is not a column of this run")
    return {name: given.get(name) for name in names}


def shares_with_count_column(
    names: Sequence[str], given: Mapping[str, Number], part: Fraction
) -> dict[str, Number]:
    """Shares of ε for columns of events and for their count, which gets `part` by default.

    If the count has a share, or all columns have one, these decide.

    >>> shares_with_count_column(["fare"], {}, Fraction(1, 5))
    {'count': Fraction(1, 5)}
    """
    if any(column_file_label(name).lower() == COUNT for name in names):
        raise SettingError("mean", f"writes a file for {COUNT!r}, and a column has that name")
    decided = COUNT in given or given.keys() >= {*names}
    return dict(given) if decided else {**given, COUNT: part}


def facts_of_all_columns(
    guarantees: Mapping[str, Guarantee], *, means: bool = False
) -> dict[str, Any]:
    """The facts about all columns that each column's file carries; `means`: one is the count."""
    total = sequential(*guarantees.values())
    shares = {name: str(one.epsilon) for name, one in guarantees.items()}
    found: dict[str, Any] = {"columns": shares, "guarantee": str(total)}
    return {**found, COUNT: COUNT} if means else found
