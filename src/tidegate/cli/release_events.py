"""`tidegate release --every`: rows are events, and the stream is their sum per tick."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tidegate as tg
from tidegate.cli.exit_codes_and_signals import complain
from tidegate.cli.pipeline_from_options import periods_from_options
from tidegate.errors import QueryError, SettingError
from tidegate.record.times.time_ranges_and_tables import Moment, length_of_time
from tidegate.run.event_ticks import Ticks

_NOW = "now"
_MANY = 1 << 40  # ticks of a log without an end
OPTIONS = ("every", "start", "until", "count", "mean")
# What readings have, and events do not.
_UNUSED = (
    "late", "preset", "holdout", "estimator", "fanout", "skipped", "delta", "set", "unit",
    "rethreshold", "start-early", "user-column",
)  # fmt: skip
_ARGUMENTS = ("epsilon", "bound", "lower", "resolution", "horizon", "every", "start", "zone")
_END = (
    "is required: the time up to which ticks are released. It is public, so it is not read off the "
    "file; `--until now` is the time of this computer"
)


def of_events(options: dict[str, Any]) -> bool:
    """Whether the options describe a stream of events."""
    if "every" in options:
        return True
    for name in OPTIONS:
        if name in options:
            raise SettingError(name, "needs --every, the length of a tick")
    return False


def check_mean(options: dict[str, Any]) -> None:
    """Refuse --mean where there are no events with values."""
    if not options.get("mean"):
        return
    if "every" not in options:
        raise SettingError(
            "mean", "needs --every: of readings, `tidegate query --every` has means already"
        )
    if options.get("count"):
        raise SettingError("count", "is part of --mean: leave it out")
    if not options.get("column"):
        raise SettingError("mean", "needs --column, the values whose mean is asked")


def release_events_until(options: dict[str, Any]) -> Moment:
    """The time up to which ticks are released."""
    if "until" not in options:
        raise SettingError("until", _END)
    given = str(options["until"])
    if given.partition("-")[0].strip() != _NOW:
        return given
    return event_time_now(options, _events_behind_clock(given))


def clock(options: dict[str, Any]) -> Moment | Callable[[], Moment]:
    """The time up to which ticks are released; with --follow, a function that gives it."""
    _warn_of_clock_change(options)
    if not options.get("follow"):
        return release_events_until(options)
    following = {"until": _NOW, **options}
    if str(following["until"]).partition("-")[0].strip() != _NOW:
        raise SettingError(
            "until", "must be now, or a while before, such as now-5min, with --follow"
        )
    _events_behind_clock(str(following["until"]))
    return lambda: release_events_until(following)


def _warn_of_clock_change(options: dict[str, Any]) -> None:
    """Warn before anything is spent if ticks of 1d will not be days of the calendar."""
    ticks = Ticks(**{name: options[name] for name in ("every", "start", "zone") if name in options})
    count = _MANY if options.get("follow") else ticks.complete(release_events_until(options))
    if changed := ticks.clock_change(count):
        complain(
            f"warning: every: ticks keep their length when clocks change, so from {changed} on "
            "they are not days of the calendar. For days: --every 1h here, and --every 1d in "
            "`tidegate query`"
        )


def _events_behind_clock(given: str) -> int:
    """The nanoseconds by which `now-5min` lies behind the clock."""
    _, minus, length = given.partition("-")
    try:
        return length_of_time(length.strip()) if minus else 0
    except QueryError:
        raise SettingError("until", "must be a time, now, or such as now-5min") from None


def event_time_now(options: dict[str, Any], behind: int = 0) -> str:
    """The computer's time, less a delay, written in the form of the stream's times."""
    from datetime import UTC, datetime, timedelta

    from tidegate.clock import clock_zone_of
    from tidegate.timestamps import read_times

    clock = read_times([options["start"]], zone=options.get("zone")).clock
    if clock.zone is None:
        here = datetime.now()  # noqa: DTZ005  # the wall clock here, as times are there
        return (here - timedelta(microseconds=behind // 1000)).isoformat()
    there = datetime.now(UTC) - timedelta(microseconds=behind // 1000)
    return there.astimezone(clock_zone_of(clock.zone)).isoformat()


_REQUIRED = {
    "epsilon": "the privacy budget, for example --epsilon 1",
    "time": "the column of times, for example --time when",
    "start": "a public time when the first tick begins, for example --start 2024-02-01",
}


def build_event_pipeline(options: dict[str, Any]) -> tg.Pipeline:
    """The pipeline of an event stream; its horizon is the number of ticks to come, if known."""
    for name, what in _REQUIRED.items():
        if name not in options:
            raise SettingError(name, f"is required for events (--every): {what}")
    for name in _UNUSED:
        if name in options:
            raise SettingError(name, "is not for events (--every)")
    counts = bool(options.get("count"))
    if counts and "bound" in options:
        raise SettingError(
            "count",
            "counts events, each as 1, and --bound is for their values: choose one, or use --mean, "
            "which releases sums and counts",
        )
    if not counts and "bound" not in options:
        raise SettingError("bound", "is required for sums of events; --count counts them instead")
    arguments = {name: options[name] for name in _ARGUMENTS if name in options}
    arguments["non_negative"] = bool(options.get("non-negative"))
    if "period" in options:
        arguments["period"] = periods_from_options(options)
    pipeline = tg.events(**arguments)
    if pipeline.ticks is None or {"horizon", "state", "follow"} & options.keys():
        return pipeline
    ticks = pipeline.ticks.complete(release_events_until(options))
    return tg.events(**{**arguments, "horizon": max(1, min(ticks, pipeline.perturber.horizon))})
