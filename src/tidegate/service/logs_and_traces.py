"""The service's log, one line per event; and its traces for OpenTelemetry.

Nothing of a request is logged: no address, no path, no body. Of an exception the kind is said, and
where it was raised: its words and its traceback may quote the data, whoever logs it. For the same
reason a message of another library is cut to its first line, and one of the event loop, which shows
calls with their arguments, is not said at all.

Spans carry routes, status codes and numbers of released rows: no values, no keys, no names of
streams, devices or clients, and no counts of what was not released. Without the library, or without
somebody who collects, all of this does nothing.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.types import Message, Scope, Send

from tidegate.errors import SettingError

FORMATS = ("text", "json")
FACTS = "facts"  # in `extra`: what a line says beside its message


class LogLineFormatter(logging.Formatter):
    """Formats a record as one line.

    Args:
        form: `json` or `text`.
    """

    def __init__(self, form: str) -> None:
        super().__init__()
        if form not in FORMATS:
            raise SettingError("log-format", f"must be one of {', '.join(FORMATS)}")
        self._json = form == "json"

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        facts = {**getattr(record, FACTS, {}), **_logged_exception(record)}
        if self._json:
            said = {"level": record.levelname.lower(), "logger": record.name}
            line = {"time": time, **said, "message": _log_message(record), **facts}
            return json.dumps(line, ensure_ascii=False, default=str)
        more = "".join(f" {name}={value}" for name, value in facts.items())
        text = f"{time} {record.levelname.lower()} {record.name}: {_log_message(record)}{more}"
        return text.replace("\n", " ")


def _log_message(record: logging.LogRecord) -> str:
    library = record.name.partition(".")[0]
    if library == "asyncio":
        return "an error in the event loop"
    words = record.getMessage()
    return words if library == "tidegate" else words.partition("\n")[0]


def _logged_exception(record: logging.LogRecord) -> dict[str, Any]:
    if not record.exc_info or record.exc_info[0] is None:
        return {}
    kind, _, trace = record.exc_info
    frames = traceback.extract_tb(trace)
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return {"exception": kind.__name__, "raised_in": where}


def begin_log(form: str) -> None:
    """Write all logs of this process to standard error, in this form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLineFormatter(form))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("tidegate").setLevel(logging.INFO)


try:
    from opentelemetry import propagate, trace
except ImportError:  # the extra [telemetry] is not installed
    trace = None

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_MOST_LINKS = 64  # requests that a commit names
_VALUES = "/v1/streams/{name}/values"


def configure_traces() -> bool:
    """Export spans if the environment says where (`OTEL_EXPORTER_OTLP_ENDPOINT`); return whether.

    Does nothing if somebody else has done it, such as `opentelemetry-instrument`.
    """
    if trace is None or not any(os.environ.get(name) for name in _ENDPOINTS):
        return False
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        return False
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return True
    named = {"service.name": os.environ.get("OTEL_SERVICE_NAME", "tidegate")}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return True


class TelemetryTraces:
    """Makes spans.

    Args:
        provider: of tracers; None: the one of the process.
    """

    def __init__(self, provider: Any = None) -> None:
        self._tracer: Any = None
        if trace is None:
            return
        # Until somebody collects, every span would be thrown away: none is made.
        given = provider or trace.get_tracer_provider()
        if not isinstance(given, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
            self._tracer = given.get_tracer("tidegate")

    @property
    def collected(self) -> bool:
        """Whether spans are exported."""
        return self._tracer is not None

    @contextmanager
    def request(self, scope: Scope, send: Send) -> Iterator[Send]:
        """A span for a request, if `collected`; responses must be sent through the result."""
        method = scope["method"]
        parent = propagate.extract({k.decode(): v.decode("latin-1") for k, v in scope["headers"]
                                    if k in (b"traceparent", b"tracestate")})  # fmt: skip
        kind = trace.SpanKind.SERVER
        with self._tracer.start_as_current_span(
            method, context=parent, kind=kind, record_exception=False, set_status_on_exception=False
        ) as span:
            span.set_attribute("http.request.method", method)

            async def answered(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.set_status(trace.StatusCode.ERROR)
                await send(message)

            yield answered
            route = getattr(scope.get("route"), "path", None) or scope["state"].get("route")
            if route is not None:  # the template, never what stands in its place
                span.set_attribute("http.route", route)
                span.update_name(f"{method} {route}")

    def context(self) -> Any:
        """The reference of a commit to the present request. None: there is none."""
        if self._tracer is None:
            return None
        found = trace.get_current_span().get_span_context()
        return found if found.is_valid else None

    @contextmanager
    def commit(self, requests: list[Any], database: str) -> Iterator[Any]:
        """A span for a transaction, linked to its requests."""
        if self._tracer is None:
            yield _NoTrace()
            return
        known = [one.trace for one in requests[:_MOST_LINKS] if one.trace is not None]
        links = [trace.Link(one) for one in known]
        with self._tracer.start_as_current_span(
            "commit", links=links, record_exception=False, set_status_on_exception=False
        ) as span:
            span.set_attribute("db.system.name", database)
            try:
                yield span
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(trace.StatusCode.ERROR)
                raise


class _NoTrace:
    def set_attribute(self, *_: Any) -> None:
        """Do nothing: spans are not exported."""


def mark_values_in_traces(scope: Scope) -> None:
    """Name the route of pushes in traces, as they bypass the framework."""
    scope["state"]["route"] = _VALUES
