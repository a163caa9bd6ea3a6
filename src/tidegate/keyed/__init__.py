"""Many streams of one pipeline: one stream for each key.

keys, values → names: code of each row → engine: one release for each key ║ rows with keys
               undeclared: dropped       its own noise, by HKDF           ║ queries, totals

Everything is imported when it is first asked for: `import tidegate` comes here (`tidegate.keyed` is
the function below), and most programs have no keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, overload

from tidegate._names_on_demand import names_on_demand
from tidegate.errors import SettingError

if TYPE_CHECKING:
    from tidegate.keyed.keyed_event_release import KeyedEventRelease
    from tidegate.keyed.keyed_release import KeyedRelease
    from tidegate.keyed.keyed_rows import KeyedRows
    from tidegate.keyed.keyed_specification import Keyed
    from tidegate.keyed.means_release_by_key import KeyedMeans, KeyedMeansRelease
    from tidegate.run.event_means import EventMeans
    from tidegate.run.pipeline import Pipeline

__all__ = [
    "Keyed",
    "KeyedEventRelease",
    "KeyedMeans",
    "KeyedMeansRelease",
    "KeyedRelease",
    "KeyedRows",
    "keyed",
]

_HOMES = {
    "Keyed": "keyed_specification",
    "KeyedEventRelease": "keyed_event_release",
    "KeyedMeans": "means_release_by_key",
    "KeyedMeansRelease": "means_release_by_key",
    "KeyedRelease": "keyed_release",
    "KeyedRows": "keyed_rows",
}


@overload
def keyed(
    pipeline: Pipeline,
    *,
    keys: Iterable[Any] | None = None,
    keys_are_public: bool = False,
    threshold: str = "per key",
) -> Keyed: ...


@overload
def keyed(pipeline: EventMeans, *, keys: Iterable[Any]) -> KeyedMeans: ...


def keyed(
    pipeline: Pipeline | EventMeans,
    *,
    keys: Iterable[Any] | None = None,
    keys_are_public: bool = False,
    threshold: str = "per key",
) -> Keyed | KeyedMeans:
    """Many streams of one pipeline: one for each key, such as a zone, a meter or a shop.

    Args:
        pipeline: what releases each of the streams; every key gets all of its budget. With
            `event_means`, counts, sums and means of events by key.
        keys: all keys that there can be: texts or whole numbers. Rows of others are dropped, and
            counted for the operator (`KeyedRelease.dropped`).
        keys_are_public: take every key that comes. Which keys come, and how many rows each has, is
            public then.
        threshold: "per key", or "shared": the first rows of all keys, as many as the pipeline holds
            out, choose one for all. For keys with few rows.

    >>> import tidegate as tg
    >>> pipeline = tg.adaptive(epsilon=1, bound=50, horizon=1000)
    >>> release = tg.keyed(pipeline, keys=["north", "south"]).start()
    >>> rows = release.push(["north", "south", "east", "north"] * 500, tg.synthetic.baskets(2000))
    >>> len(rows), release.dropped
    (1500, 500)
    >>> answer = release.query(key="north", start=0, end=1000)
    >>> answer.low < answer.high
    True
    >>> print(release.guarantee)
    ε = 1 per event of any key (exact arithmetic, central model)
    """
    from tidegate.keyed.key_names import declared_keys
    from tidegate.keyed.keyed_specification import UNDECLARED_KEYS, Keyed
    from tidegate.run.event_means import EventMeans
    from tidegate.run.pipeline import Pipeline

    if isinstance(pipeline, EventMeans):
        from tidegate.keyed.means_release_by_key import KeyedMeans

        given: dict[str, Any] = {"keys_are_public": keys_are_public, "threshold": threshold}
        given["keys"] = None if keys is None else declared_keys(keys)
        return KeyedMeans(keyed(pipeline.sums, **given), keyed(pipeline.counts, **given))
    if not isinstance(pipeline, Pipeline):
        raise SettingError("pipeline", "must be a pipeline such as tidegate.adaptive(...)")
    if keys_are_public and keys is not None:
        raise SettingError("keys", "cannot be both declared and public: choose one")
    if keys is None and not keys_are_public:
        raise SettingError("keys", UNDECLARED_KEYS)
    names = None if keys is None else declared_keys(keys)
    return Keyed(pipeline=pipeline, keys=names, threshold=threshold)


if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__ = names_on_demand(__name__, (), _HOMES)
