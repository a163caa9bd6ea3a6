"""Bodies of requests that create or plan streams: of readings, events, keys or columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictFloat

from tidegate import methods
from tidegate.clock import SECOND
from tidegate.errors import InputError, QueryError, SettingError, TidegateError
from tidegate.exact_numbers import positive
from tidegate.keyed.key_names import declared_keys
from tidegate.keyed.keyed_specification import PER_KEY, SHARED
from tidegate.methods._events import events
from tidegate.plan import expect, setting_warnings
from tidegate.record.times.time_ranges_and_tables import length_of_time
from tidegate.run.column_budgets import checked_column_names, shares_of
from tidegate.run.pipeline import Pipeline
from tidegate.service.stored_stream import stream_keyed_by

_MOST_LENGTHS = 32
_LONGEST = 1 << 24
Given = ParamSpec("Given")
Result = TypeVar("Result")


def _stream_settings_refused(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Convert Python's error about arguments that a method does not take into ours."""

    @wraps(function)
    def called(*args: Given.args, **more: Given.kwargs) -> Result:
        try:
            return function(*args, **more)
        except TidegateError:
            raise
        except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError):
            pass
        raise SettingError(
            "settings", "do not fit the method: see `tidegate methods NAME` for what it takes"
        )

    return called


class Ticks(BaseModel):
    """The clock of an event stream."""

    model_config = ConfigDict(extra="forbid")

    every: str = Field(examples=["15min"], description="How long a tick is.")
    start: str = Field(examples=["2024-01-01T00:00Z"], description="When the first begins.")
    zone: str | None = Field(None, description="Where times without a zone were written.")
    count: bool = Field(False, description="Count events instead of adding their values.")
    grace: str | None = Field(
        None,
        max_length=20,
        examples=["1min"],
        description="The service's clock closes ticks, this long after their end: events that come "
        "later are not counted. Without it, producers say what their clock shows (until).",
    )


class NewStream(BaseModel):
    """A stream to create: a method of `tidegate methods`, and its settings."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(examples=["meters"], max_length=200)
    method: str = Field("adaptive", max_length=100)
    epsilon: str | StrictFloat = Field(
        examples=["0.5"], description="A decimal or a fraction; as text it is exact."
    )
    bound: str | StrictFloat | None = Field(
        None, examples=["100"], description="A public upper bound of a value."
    )
    source: str | None = Field(
        None, max_length=200, description="Streams of one source add up in the ledger."
    )
    part: str | None = Field(
        None,
        max_length=200,
        description="A part of the source that shares no value with its other parts: streams of "
        "different parts do not add up.",
    )
    keys: list[str | int] | Literal["public"] | None = Field(
        None, description='All keys that there can be, or "public": every key that comes is taken.'
    )
    shared_threshold: bool = Field(False, description="One threshold for all keys.")
    events: Ticks | None = Field(None, description="Rows are events; released are sums per tick.")
    settings: dict[str, Any] = Field(
        default_factory=dict, description="Further settings of the method."
    )

    @_stream_settings_refused
    def pipeline(self) -> Pipeline:
        """The pipeline of these settings."""
        if self.events is not None:
            return self._events(self.events)
        if self.method not in methods.names():
            raise SettingError("method", f"must be one of {', '.join(methods.names())}")
        if self.bound is None:
            raise SettingError("bound", "is missing: a public upper bound of a value")
        made = methods.find(self.method).preset(self.epsilon, self.bound, **self.settings)
        if not isinstance(made, Pipeline):
            raise SettingError("method", f"{self.method} is of the local model")
        return made

    def _events(self, ticks: Ticks) -> Pipeline:
        if self.method != "adaptive":
            raise SettingError("method", "must be left out for events")
        if (self.bound is None) != ticks.count:
            raise SettingError("bound", "must be given for sums of events, and not for counts")
        clock = ticks.model_dump(exclude={"count", "grace"})
        return events(self.epsilon, self.bound, **clock, **self.settings)

    def grace(self, pipeline: Pipeline) -> int | None:
        """Seconds from the end of a tick until the service closes it. None: it does not."""
        if self.events is None or self.events.grace is None or pipeline.ticks is None:
            return None
        if pipeline.ticks.clock.zone is None:
            raise SettingError("zone", "must be given where the service's clock closes ticks")
        try:
            length = 0 if self.events.grace == "0s" else length_of_time(self.events.grace)
        except QueryError:
            raise SettingError("grace", "must be a length of time, such as 30s or 5min") from None
        if length % SECOND:
            raise SettingError("grace", "must be a whole number of seconds")
        return length // SECOND

    @_stream_settings_refused
    def key_settings(self, pipeline: Pipeline) -> dict[str, Any] | None:
        """The settings about keys. None: there are no keys."""
        if self.keys is None:
            if self.shared_threshold:
                raise SettingError("shared_threshold", "needs keys")
            return None
        names = None if self.keys == "public" else list(declared_keys(self.keys))
        found = {"names": names, "threshold": SHARED if self.shared_threshold else PER_KEY}
        _ = stream_keyed_by(pipeline, found).guarantee
        return found

    def checked(self) -> dict[str, Any]:
        """The guarantee of these settings, and warnings about them."""
        pipeline = self.pipeline()
        _ = self.grace(pipeline)
        keys = self.key_settings(pipeline)
        promise = pipeline.guarantee if keys is None else stream_keyed_by(pipeline, keys).guarantee
        return {
            "guarantee": str(promise),
            "withheld": pipeline.holdout,
            "warm_up": pipeline.warm_up,
            "warnings": setting_warnings(pipeline),
        }


class Column(BaseModel):
    """One of several values of a row."""

    model_config = ConfigDict(extra="forbid")

    bound: str | StrictFloat = Field(
        examples=["100"], description="A public upper bound of a value."
    )
    share: str | StrictFloat | None = Field(
        None, description="The share of ε; columns without one divide the rest evenly."
    )
    settings: dict[str, Any] = Field(
        default_factory=dict, description="Settings of the method, for this column."
    )


class NewColumns(BaseModel):
    """Streams to create for rows with several values; they share the ε of a row."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(examples=["trips"], max_length=100)
    method: str = Field("adaptive", max_length=100)
    epsilon: str | StrictFloat = Field(examples=["1"], description="ε of a row; exact as text.")
    columns: dict[str, Column] = Field(
        examples=[{"fare": {"bound": "100"}, "tip": {"bound": "30", "share": "0.3"}}],
        min_length=1,
        max_length=100,
    )
    source: str | None = Field(None, max_length=200)
    part: str | None = Field(None, max_length=200)

    @_stream_settings_refused
    def pipelines(self) -> dict[str, Pipeline]:
        """The pipeline of each column. A replaced row replaces all its values: budgets add up."""
        names = checked_column_names(list(self.columns))
        given = {name: one.share for name, one in self.columns.items() if one.share is not None}
        epsilon, shares = positive("epsilon", self.epsilon), shares_of(names, given)
        made: dict[str, Pipeline] = {}
        for name, one in self.columns.items():
            new: dict[str, Any] = {"name": name, "method": self.method, "bound": one.bound}
            new |= {"epsilon": str(epsilon * shares[name]), "settings": one.settings}
            made[name] = NewStream.model_validate(new).pipeline()
        return made


class Plan(NewStream):
    """Settings whose errors are to be predicted."""

    name: str = "plan"
    lengths: list[int] = Field([1, 100, 10_000], description="Lengths of ranges, in rows.")
    threshold: float | str | None = Field(None, description="θ to assume; default: the bound.")
    roughness: float = Field(0.05, description="The level's drift over the horizon, in θ.")

    @_stream_settings_refused
    def expected(self) -> dict[str, Any]:
        """The errors to expect, computed from settings alone."""
        if not 0 < len(self.lengths) <= _MOST_LENGTHS or max(self.lengths) > _LONGEST:
            raise InputError(f"lengths: up to {_MOST_LENGTHS} of them, of up to {_LONGEST:,} rows")
        pipeline = self.pipeline()
        found = expect(pipeline, self.lengths, threshold=self.threshold, roughness=self.roughness)
        return {
            **self.checked(),
            "errors": [
                {
                    "length": one.length,
                    "standard_error": one.standard_error,
                    "noise_error": one.noise_error,
                    "threshold": one.threshold,
                }
                for one in found
            ],
        }
