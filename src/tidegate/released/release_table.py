"""`release`: a whole table in, a `Released` out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, overload

from tidegate import methods
from tidegate.errors import InputError, SettingError
from tidegate.exact_numbers import Number, positive, said
from tidegate.guarantee import sequential
from tidegate.methods._cycle_periods import periods_in_rows
from tidegate.methods._feasibility import SEEN
from tidegate.randomness import Randomness
from tidegate.released.released import Released
from tidegate.released.released_columns import RandomnessOfColumn, ReleasedColumns
from tidegate.run.column_budgets import checked_column_names, per_column, shares_of
from tidegate.run.pipeline import Pipeline
from tidegate.tables.columns_to_numpy import column_to_numpy
from tidegate.tables.table_input import (
    check_table_kind,
    index_times_of_table,
    is_table,
    only_column_of_table,
    picked_table_columns,
    table_columns_at_once,
    table_without_capsules,
)
from tidegate.timestamps import Times, read_times

_HORIZON = 1 << 20  # of the presets
_FEW = 1000  # rows: more of them need no remark that they are few
_CALLED = {"column": "value", "columns": "value", "values": "value", "times": "time"}  # elsewhere
_OWN = ("lower", "resolution")  # settings that a column may have of its own
Bounds = Number | Mapping[str, Number]  # of a value; or by column


@overload
def release(
    table: Any, value: str | None = None, *, epsilon: Number, bound: Bounds, **settings: Any
) -> Released: ...


@overload
def release(
    table: Any,
    value: list[str] | tuple[str, ...],
    *,
    epsilon: Number,
    bound: Bounds,
    **settings: Any,
) -> ReleasedColumns: ...


def release(
    table: Any,
    value: Any = None,
    *,
    time: Any = None,
    epsilon: Number,
    bound: Bounds,
    users: Any = None,
    zone: str | None = None,
    late: str = "refuse",
    method: str = "adaptive",
    share: Mapping[str, Number] | None = None,
    randomness: Randomness | None = None,
    **settings: Any,
) -> Released | ReleasedColumns:
    """Release one or several columns of a table under differential privacy, in one call.

    Every call spends ε on the table anew: release once, keep the result. For a stream that grows,
    use `tidegate.adaptive(...).start()` or `tidegate.durable`.

    Args:
        table: of pandas, polars, pyarrow or DuckDB, or with Arrow's PyCapsule interface; a
            dictionary of columns; or the column itself. Rows are taken in their order.
        value: the name of the column of values, which may be left out if there is no other; or a
            list of names, which share ε.
        time: the name of the column of times, or the times themselves. They are public, and must
            be in order. None: the index of a Series or frame of pandas, if it has times.
        epsilon: the budget of every value.
        bound: a public upper bound of a value; never read it off the data. For several columns: one
            for all, or by name: `{"fare": 100, "tip": 30}`; likewise `lower` and `resolution`.
        users: the column that names the user of each row, where users are the unit of privacy.
        zone: where times without a zone were written, and in which zone all are written out.
        late: `keep` takes rows that are older than the one before, at their place.
        method: a name of `tidegate.methods`.
        share: with several columns, the share of ε for some: `{"fare": 0.7}`; the others divide
            the rest evenly.
        randomness: `tidegate.seeded(7)` for a simulation without a guarantee.
        settings: of the method, such as `resolution`, `unit` or `horizon` (default: as many as
            there are rows, at most 2²⁰). A `holdout` that is usual and longer than the table
            becomes a tenth of its rows: these are not released. A `period` may be a length of time,
            such as "1d", where rows are evenly spaced.

    Returns:
        A `Released`; of several columns a `ReleasedColumns`, where `released["tip"]` is one.

    >>> import tidegate as tg
    >>> trips = {"fare": tg.synthetic.baskets(5_000)}
    >>> released = tg.release(trips, "fare", epsilon=1, bound=500)
    >>> len(released), released.guarantee
    (5000, 'ε = 1 per event (exact arithmetic, central model)')
    >>> list(released.columns())
    ['position', 'value', 'level']
    """
    for name in sorted(_CALLED.keys() & settings.keys()):
        raise SettingError(name, f"is called {_CALLED[name]!r} where a whole table is released")
    table = table_without_capsules(table)
    check_table_kind(table, value)
    if isinstance(value, list | tuple) and is_table(table):
        common = {"users": users, "zone": zone, "late": late, "method": method, **settings}
        budget = {"epsilon": epsilon, "bound": bound, "share": share}
        return _columns_of_table(table, value, time, budget, randomness, common)
    if share is not None or isinstance(bound, Mapping):
        named = "share" if share is not None else "bound"
        raise SettingError(named, "by name needs several columns: value=['fare', 'tip']")
    name = value if isinstance(value, str) else ""
    if is_table(table):
        value = only_column_of_table(table) if value is None else value
        if value is None:
            raise SettingError("value", "name the column of values, such as value='fare'")
        wanted = {"value": value, "users": users, "time": index_times_of_table(table, time)}
        values, users, time = picked_table_columns(table, wanted)
    else:
        values = table if value is None else value
        time = index_times_of_table(values, time)
        name = name or str(getattr(table, "name", "") or "")
    values = column_to_numpy(values)
    rows = _count(values)
    if not rows:
        raise InputError("the table has no rows: nothing was released, and nothing was spent")
    if time is not None:
        time = _times_of_table(time, zone)  # before anything is spent
        if settings.get("period") is not None:
            settings = {**settings, "period": periods_in_rows(settings["period"], time.ticks)}
    pipeline = _pipeline_for_table(method, epsilon, bound, rows, settings)
    _warn_of_table_settings(pipeline)
    running = pipeline.keeping(rows).start(randomness)
    out = running.push_rows(values, users, time, late)
    running.finish()  # the table is over, and its length is public
    return Released(
        out,
        running.record,
        pipeline,
        threshold=running.threshold,
        promise=running.guarantee,
        name=name,
        phases=running.phases,
        beyond=running.user_cap.beyond if running.user_cap else 0,
    )


def _times_of_table(time: Any, zone: str | None) -> Times:
    try:
        return read_times(time, zone=zone)
    except InputError as error:
        if not str(error).endswith("since 1970"):
            raise
        problem = f"{error}; convert the column first, for example with pandas.to_datetime"
    raise InputError(problem)


def _columns_of_table(
    table: Any,
    value: Sequence[str],
    time: Any,
    budget: Mapping[str, Any],
    randomness: Randomness | None,
    common: dict[str, Any],
) -> ReleasedColumns:
    """Release each column with its share of ε.

    Privacy: a row has a value in each column, and each costs its own ε_i. A replaced row costs
    their sum (sequential composition), which is ε exactly.
    """
    names = checked_column_names(value)
    epsilon = positive("epsilon", budget["epsilon"])
    shares = shares_of(names, budget["share"])
    bounds = per_column("bound", names, budget["bound"])
    own = {name: per_column(name, names, common.pop(name)) for name in _OWN if name in common}
    time = index_times_of_table(table, time)
    table = table_columns_at_once(table, [*names, time, common["users"]])
    released: dict[str, Released] = {}
    for name in names:
        if bounds[name] is None:
            raise SettingError("bound", f"is missing for {said(name)}")
        mine = {setting: each[name] for setting, each in own.items() if each[name] is not None}
        released[name] = release(
            table,
            name,
            time=time,
            epsilon=epsilon * shares[name],
            bound=bounds[name],
            randomness=RandomnessOfColumn(name, randomness),
            **common,
            **mine,
        )
    total = sequential(*(one.promise for one in released.values()))
    return ReleasedColumns(released, total, in_memory=released)


def _warn_of_table_settings(pipeline: Pipeline) -> None:
    """Warn about settings, as `tidegate release` does: a `UserWarning` for each sentence."""
    from tidegate.plan import setting_warnings  # on demand: most imports need none of it

    for sentence in setting_warnings(pipeline):
        warnings.warn(sentence, UserWarning, stacklevel=3)  # at the line of the caller


def _count(values: Any) -> int:
    try:
        return len(values)
    except TypeError:
        raise InputError("the column must be a list or an array of numbers") from None


def _pipeline_for_table(
    method: str, epsilon: Number, bound: Number, rows: int, settings: dict[str, Any]
) -> Pipeline:
    if method not in methods.names():
        raise SettingError(
            "method", f"must be one of {', '.join(methods.names())}, not {said(method)}"
        )
    fixed = {"horizon", "holdout", "start_early", "rethreshold_every"}
    if method == "adaptive" and not fixed & settings.keys():
        settings = {"horizon": min(rows, _HORIZON), **settings}
    make = methods.find(method).preset
    made = _pipeline_for_table_rows(make, epsilon, bound, rows, settings)
    if not isinstance(made, Pipeline):
        raise SettingError("method", f"{method} releases no table: it is of the local model")
    if made.holdout < rows:
        return made
    return _with_less_held_out(make, made, rows, epsilon, bound, settings)


def _pipeline_for_table_rows(
    make: Callable[..., Any], epsilon: Number, bound: Number, rows: int, settings: dict[str, Any]
) -> Any:
    """The pipeline; refuses a table that is too short for its budget."""
    try:
        return make(epsilon, bound, **settings)
    except SettingError as problem:
        if problem.setting == "epsilon" and rows < _FEW and settings.get("horizon") == rows:
            raise SettingError(
                "epsilon", f"for a table of {rows:,} rows, {problem.problem}"
            ) from None
        raise


def _with_less_held_out(
    make: Callable[..., Any],
    made: Pipeline,
    rows: int,
    epsilon: Number,
    bound: Number,
    settings: dict[str, Any],
) -> Pipeline:
    """The pipeline with a default hold-out that leaves rows to release.

    A tenth of the rows, or as many as a threshold needs that is better than chance: a function of
    the number of rows, which is public.
    """
    each = made.threshold.guarantee.epsilon
    enough = math.ceil(SEEN / each) if each else rows
    fitting = max(rows // 10, enough)
    taken = signature(make).parameters
    if "holdout" in settings or "holdout" not in taken or 2 * fitting > rows:
        raise SettingError(
            "holdout",
            f"takes {made.holdout:,} values, and the table has {rows:,} rows: nothing would be "
            "released. Give a smaller holdout, or use method='adaptive', which holds nothing back",
        )
    found: Pipeline = make(epsilon, bound, **{**settings, "holdout": fitting})
    return found
