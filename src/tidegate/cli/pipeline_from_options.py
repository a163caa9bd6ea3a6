"""Build a pipeline from command-line options or from a TOML file (--config).

`--period` is how many rows a cycle has, written as rows or as a length of time.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, time
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Any

import tidegate as tg
from tidegate.errors import MissingError, SettingError
from tidegate.exact_numbers import said
from tidegate.methods import LOCAL, find, names
from tidegate.methods._cycle_periods import (
    is_length_of_period,
    periods_as_rows,
    spacing_for_periods,
)
from tidegate.methods._preset import HORIZON
from tidegate.stages import Estimator
from tidegate.units import Unit, unit_named


def periods_from_options(options: dict[str, Any]) -> list[str]:
    """The periods in the form in which they were written."""
    return [part.strip() for part in str(options["period"]).split(",")]


def options_with_rows(
    options: dict[str, Any], source: str, reading: dict[str, Any]
) -> dict[str, Any]:
    """The options, with periods converted to numbers of rows.

    A length of time needs rows that are evenly spaced. Times are public, so the first rows of the
    file tell it; a pipe can be read only once.

    Args:
        options: all of the command's.
        source: the input.
        reading: how it is opened.
    """
    if "period" not in options or not any(map(is_length_of_period, periods_from_options(options))):
        return options
    if "time" not in options:
        raise SettingError("period", "a length of time needs --time; else give a number of rows")
    if "by" in options:
        raise SettingError("period", "must be a number of rows of a key where --by is given")
    if source == "-":
        raise SettingError("period", "must be a number of rows where the input is a pipe")
    rows = periods_as_rows(periods_from_options(options), _row_spacing_for_options(source, reading))
    return {**options, "period": ",".join(map(str, rows or ()))}


def _row_spacing_for_options(source: str, reading: dict[str, Any]) -> int:
    """Nanoseconds from row to row, read from the first rows."""
    from tidegate.io import open_source

    with open_source(source, **{**reading, "follow": False}) as opened:
        first = next(iter(opened.batches()), None)
    times = None if first is None else first.times
    if times is None:
        raise SettingError("period", "must be a number of rows: the file has too few to tell")
    return spacing_for_periods(times.ticks)


class _PresetsByOption(Mapping[str, Callable[..., tg.Pipeline]]):
    """The methods of the central model by their command-line names.

    One is imported when it is looked up: importing all of them takes a tenth of every start.
    """

    def __iter__(self) -> Iterator[str]:
        return (name.replace("_", "-") for name in names() if name not in LOCAL)

    def __len__(self) -> int:
        return len(names()) - len(LOCAL)

    def __getitem__(self, name: str) -> Callable[..., tg.Pipeline]:
        if name not in tuple(self):
            raise KeyError(name)
        return find(name.replace("-", "_")).preset


SHORTEST_KEY = 1000  # rows that a key is expected to have at least
FEW_ROWS = 8  # of a file with hardly a row, its length is not what is wrong
DEFAULT_PRESET = "adaptive"
PRESETS = _PresetsByOption()
SMOOTHERS: dict[str, Callable[[], Estimator]] = {
    "recent": tg.estimate.Recent,
    "mean": tg.estimate.Mean,
    "median": tg.estimate.Median,
    "moving-average": tg.estimate.MovingAverage,
    "exponential": tg.estimate.Exponential,
    "none": tg.estimate.Unsmoothed,
}
# Option → argument of the preset. Not every preset takes every one.
_ARGUMENTS = {
    "epsilon": "epsilon",
    "bound": "bound",
    "lower": "lower",
    "delta": "delta",
    "resolution": "resolution",
    "holdout": "holdout",
    "horizon": "horizon",
    "fanout": "fanout",
    "skipped": "skipped",
    "non-negative": "non_negative",
    "start-early": "start_early",
}


BY_COLUMN = ("column", "bound", "lower", "resolution", "share")  # may be given several times
_LONGEST_CONFIG = 1 << 20
_MOST_BITS = 1 << 12
_DIGITS = 20  # of a whole number; longer ones are left to the setting, which refuses them


def options_with_config(
    options: dict[str, Any], config: Path | None, kinds: Mapping[str, type]
) -> dict[str, Any]:
    """The options, completed from the TOML file (same names and types); options win."""
    given = {name: value for name, value in options.items() if value not in (None, [])}
    if config is None:
        return given
    try:
        with config.open("rb") as file:
            data = file.read(_LONGEST_CONFIG + 1)
        if len(data) > _LONGEST_CONFIG:
            raise SettingError("config", f"{config} is longer than {_LONGEST_CONFIG >> 20} MiB")
        stored = tomllib.loads(data.decode("utf-8"))
    except OSError as error:
        raise MissingError(f"config: cannot read {config}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, SettingError):
            raise
        # The library's words quote the file, and a file of values may be given by mistake.
        place = re.search(r"\(at (line \d+, column \d+)\)$", str(error))
        where = f", at {place[1]}" if place else ""
        raise SettingError("config", f"{config} is not TOML{where}") from None
    stored = {name.replace("_", "-"): value for name, value in stored.items()}
    for name in stored:
        if name not in options:
            known = ", ".join(sorted(options))
            raise SettingError("config", f"there is no option {said(name)}; there are: {known}")
    return {
        **{name: _typed_options(name, value, kinds[name]) for name, value in stored.items()},
        **given,
    }


def _typed_options(name: str, value: Any, wanted: type) -> Any:
    """Convert a value from the TOML file to the type of its option."""
    # TOML's hexadecimal numbers have no limit; Python refuses to write so many digits.
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise SettingError(name, "has too many digits")
    if wanted is list and isinstance(value, dict):
        return [f"{key}={_typed_options(name, one, str)}" for key, one in value.items()]
    if wanted is list:
        given = value if isinstance(value, list) else [value]
        return [_typed_options(name, one, str) for one in given]
    if wanted is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if wanted is str and isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        kind = {bool: "true or false", int: "a whole number", str: "text or a number"}[wanted]
        raise SettingError(name, f"must be {kind} in the config")
    return value


def build_pipeline(options: Mapping[str, Any]) -> tg.Pipeline:
    """The pipeline that the options describe."""
    name_of_preset = options.get("preset", DEFAULT_PRESET)
    preset = _one_of_options("preset", name_of_preset, PRESETS)
    for required in ("epsilon", "bound"):
        if required not in options:
            raise SettingError(required, f"is required (or set `{required}` in the config file)")
    arguments = {
        argument: options[name] for name, argument in _ARGUMENTS.items() if name in options
    }
    if "estimator" in options:
        arguments["estimator"] = _one_of_options("estimator", options["estimator"], SMOOTHERS)()
    if "unit" in options:
        arguments["unit"] = unit_from_option(options["unit"])
    if "period" in options:
        arguments["period"] = [
            _rows_from_option(part) for part in str(options["period"]).split(",")
        ]
    if "rethreshold" in options:
        arguments.update(_rethreshold_from_option(options["rethreshold"]))
    if "set" in options:
        arguments.update(_own_options(options["set"]))
    for name in arguments:
        if name not in signature(preset).parameters:
            named = "set" if "set" in options and name in _own_options(options["set"]) else name
            raise SettingError(
                named.replace("_", "-"),
                f"{f'{said(name)} ' if named != name else ''}is not an option of "
                f"--preset {name_of_preset}{_presets_with_option(name)}",
            )
    pipeline: tg.Pipeline = preset(**arguments)
    return pipeline


def options_with_length(options: dict[str, Any], source: str) -> dict[str, Any]:
    """The options, with the number of input rows as horizon if that is below the default.

    How long warm-up and blocks should be depends on how many values come. Only where nothing else
    depends on the horizon: a state may be continued with more rows, and `fast` protects a horizon.
    """
    fixed = {"horizon", "holdout", "state", "follow", "start-early", "rethreshold"}
    if fixed & options.keys() or options.get("preset", DEFAULT_PRESET) != DEFAULT_PRESET:
        return options
    from tidegate.io.file_kind_and_row_count import (
        row_count_at_most,  # on demand: `plan` reads no file
    )

    rows = row_count_at_most(source, options.get("format"))
    if rows is None or rows < FEW_ROWS or rows >= HORIZON:
        return options
    return {**options, "horizon": rows}


def rows_of_an_average_row(rows_of_keys: Iterable[int]) -> int:
    """The length of the key in which an average row lies: Σn²/Σn; 0 without rows.

    >>> rows_of_an_average_row([100, 100]), rows_of_an_average_row([10, 190])
    (100, 181)
    """
    rows = list(rows_of_keys)
    return sum(count * count for count in rows) // max(1, sum(rows))


def _presets_with_option(argument: str) -> str:
    """Name the presets that have this argument, as the end of a sentence."""
    names = [name for name, one in PRESETS.items() if argument in signature(one).parameters]
    return f"; {', '.join(names)} have it" if names else ""


def unit_from_option(text: str) -> Unit:
    """The unit of privacy: event, window:60 or user-horizon:8."""
    return unit_named(str(text))


def _rethreshold_from_option(text: str) -> dict[str, Any]:
    parts = dict(part.partition("=")[::2] for part in str(text).split(","))
    if "every" not in parts or parts.keys() - {"every", "share"}:
        raise SettingError("rethreshold", f"must be every=N or every=N,share=f, not {said(text)}")
    return {f"rethreshold_{name}": _number_from_option(value) for name, value in parts.items()}


def _own_options(text: str) -> dict[str, Any]:
    """The arguments that only this method has."""
    parts = dict(part.partition("=")[::2] for part in str(text).split(","))
    taken = {
        *_ARGUMENTS.values(),
        "estimator",
        "unit",
        "period",
        "rethreshold_every",
        "rethreshold_share",
    }
    for name, value in parts.items():
        if not name or not value:
            raise SettingError("set", f"must be name=value,name=value, not {said(text)}")
        if name in taken:
            raise SettingError("set", f"{said(name)} has its own option")
    return {name: _number_from_option(value) for name, value in parts.items()}


def _rows_from_option(text: str) -> int | str:
    if not text.strip().isdecimal():
        raise SettingError(
            "period", f"must be numbers of rows here, such as 1440, not {said(text)}"
        )
    return _number_from_option(text.strip())


def _number_from_option(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS else text


def _one_of_options(name: str, value: Any, choices: Mapping[str, Any]) -> Any:
    if value not in choices:
        close = get_close_matches(str(value), choices, 1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        raise SettingError(name, f"must be one of {', '.join(choices)}, not {said(value)}{meant}")
    return choices[value]
