"""`release`: a whole table in, a `Released` out."""

from __future__ import annotations

from typing import Any

from tidegate import methods
from tidegate.errors import InputError, SettingError
from tidegate.exact_numbers import Number
from tidegate.randomness import Randomness
from tidegate.released.released import Released
from tidegate.run.pipeline import Pipeline
from tidegate.tables.incoming import plain
from tidegate.tables.table_input import is_table, picked
from tidegate.timestamps import read_times

_HORIZON = 1 << 20  # of the presets


def release(
    table: Any,
    value: Any = None,
    *,
    time: Any = None,
    epsilon: Number,
    bound: Number,
    users: Any = None,
    zone: str | None = None,
    late: str = "refuse",
    method: str = "adaptive",
    randomness: Randomness | None = None,
    **settings: Any,
) -> Released:
    """Release one column of a table under differential privacy, in one call.

    Every call spends ε on the table anew: release once, keep what comes out. For a stream that
    goes on, use `tidegate.adaptive(...).start()` or `tidegate.durable`.

    Args:
        table: of pandas, polars, pyarrow or DuckDB, or with Arrow's PyCapsule interface; a
            dictionary of columns; or the column itself. Rows are taken in their order.
        value: the name of the column of values.
        time: the name of the column of times, or the times themselves (`frame.index`). They are
            public, and must be in order.
        epsilon: the budget of every value.
        bound: a public upper bound of a value; never read it off the data.
        users: the column that names the user of each row, where users are the unit of privacy.
        zone: where times without a zone were written, and in which zone all are written out.
        late: `keep` takes rows that are older than the one before, at their place.
        method: a name of `tidegate.methods`.
        randomness: `tidegate.seeded(7)` for a simulation without a guarantee.
        settings: of the method, such as `resolution`, `unit` or `horizon` (default: as many as
            there are rows, at most 2²⁰).

    >>> import tidegate as tg
    >>> trips = {"fare": tg.synthetic.baskets(5_000)}
    >>> released = tg.release(trips, "fare", epsilon=1, bound=500)
    >>> len(released), released.guarantee
    (5000, 'ε = 1 per event (exact arithmetic, central model)')
    >>> list(released.columns())
    ['position', 'value', 'level']
    """
    name = value if isinstance(value, str) else ""
    if is_table(table):
        if value is None:
            raise SettingError("value", "name the column of values, such as value='fare'")
        wanted = {"value": value, "users": users, "time": time}
        values, users, time = picked(table, wanted)
    else:
        values = table if value is None else value
        name = name or str(getattr(table, "name", "") or "")
    values = plain(values)
    rows = _count(values)
    if not rows:
        raise InputError("the table has no rows: nothing was released, and nothing was spent")
    pipeline = _pipeline(method, epsilon, bound, rows, settings)
    if time is not None:
        time = read_times(time, zone=zone)  # before anything is spent
    running = pipeline.start(randomness)
    out = running.push_rows(values, users, time, late)
    running.finish()  # the table is over, and its length is public
    return Released(out, running.record, pipeline, threshold=running.threshold, name=name)


def _count(values: Any) -> int:
    try:
        return len(values)
    except TypeError:
        raise InputError("the column must be a list or an array of numbers") from None


def _pipeline(
    method: str, epsilon: Number, bound: Number, rows: int, settings: dict[str, Any]
) -> Pipeline:
    if method not in methods.names():
        raise SettingError("method", f"must be one of {', '.join(methods.names())}, not {method!r}")
    fixed = {"horizon", "holdout", "start_early", "rethreshold_every"}
    if method == "adaptive" and not fixed & settings.keys():
        settings = {"horizon": min(rows, _HORIZON), **settings}
    made = methods.find(method).preset(epsilon, bound, **settings)
    if not isinstance(made, Pipeline):
        raise SettingError("method", f"{method} releases no table: it is of the local model")
    return made
