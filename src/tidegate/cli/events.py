"""`tidegate release --every`: rows are events, and the stream is their sum per tick."""

from __future__ import annotations

from typing import Any

import tidegate as tg
from tidegate.cli.periods import parts_of
from tidegate.errors import SettingError
from tidegate.record.time_ranges import Moment

OPTIONS = ("every", "start", "until", "count")
# What readings have, and events do not.
_UNUSED = (
    "late", "preset", "holdout", "estimator", "fanout", "skipped", "delta", "set", "unit",
    "rethreshold", "start-early", "follow", "user-column",
)  # fmt: skip
_ARGUMENTS = ("epsilon", "bound", "lower", "resolution", "horizon", "every", "start", "zone")
_END = (
    "is required: the time up to which ticks are released. It is public, so it is not read off the "
    "file; `--until now` is the time of this computer"
)


def of_events(options: dict[str, Any]) -> bool:
    """Whether the options describe an event stream."""
    if "every" in options:
        return True
    for name in OPTIONS:
        if name in options:
            raise SettingError(name, "goes with --every, the length of a tick")
    return False


def until(options: dict[str, Any]) -> Moment:
    """The time up to which ticks are released."""
    if "until" not in options:
        raise SettingError("until", _END)
    return moment_now(options) if options["until"] == "now" else str(options["until"])


def moment_now(options: dict[str, Any]) -> str:
    """The time of this computer, written as the times of the stream are."""
    from datetime import UTC, datetime

    from tidegate.clock import zone_of
    from tidegate.timestamps import read_times

    clock = read_times([options["start"]], zone=options.get("zone")).clock
    if clock.zone is None:
        return datetime.now().isoformat()  # noqa: DTZ005  # the wall clock here, as times are there
    return datetime.now(UTC).astimezone(zone_of(clock.zone)).isoformat()


def build(options: dict[str, Any]) -> tg.Pipeline:
    """The pipeline of an event stream; its horizon is the ticks that come, if that is known."""
    for name in ("epsilon", "time", "start"):
        if name not in options:
            raise SettingError(name, "is required for events (--every)")
    for name in _UNUSED:
        if name in options:
            raise SettingError(name, "is not for events (--every)")
    counts = bool(options.get("count"))
    if counts == ("bound" in options):
        raise SettingError("bound", "is required for sums of events; --count counts them instead")
    arguments = {name: options[name] for name in _ARGUMENTS if name in options}
    arguments["non_negative"] = bool(options.get("non-negative"))
    if "period" in options:
        arguments["period"] = parts_of(options)
    pipeline = tg.events(**arguments)
    if pipeline.ticks is None or {"horizon", "state"} & options.keys():
        return pipeline
    ticks = pipeline.ticks.complete(until(options))
    return tg.events(**{**arguments, "horizon": max(1, min(ticks, pipeline.perturber.horizon))})
