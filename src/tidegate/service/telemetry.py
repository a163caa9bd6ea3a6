"""Traces for OpenTelemetry, where it is installed: a span for each request and each commit.

Spans carry routes, status codes and numbers of released rows: no values, no keys, no names of
streams, devices or clients, and no counts of what was not released. Without the library, or without
somebody who collects, all of this does nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.types import Message, Scope, Send

try:
    from opentelemetry import propagate, trace
except ImportError:  # the extra [telemetry] is not installed
    trace = None

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_MOST_LINKS = 64  # requests that a commit names
_VALUES = "/v1/streams/{name}/values"


def configure() -> bool:
    """Send spans where the environment says (`OTEL_EXPORTER_OTLP_ENDPOINT`); whether it says so.

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


class Telemetry:
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
        """Whether somebody collects spans."""
        return self._tracer is not None

    @contextmanager
    def request(self, scope: Scope, send: Send) -> Iterator[Send]:
        """A span around a request, if `collected`; answers must leave by what it gives."""
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
        """What a commit names of the request under way; None: there is none."""
        if self._tracer is None:
            return None
        found = trace.get_current_span().get_span_context()
        return found if found.is_valid else None

    @contextmanager
    def commit(self, requests: list[Any], database: str) -> Iterator[Any]:
        """A span around a transaction, with links to its requests."""
        if self._tracer is None:
            yield _Nothing()
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


class _Nothing:
    def set_attribute(self, *_: Any) -> None:
        """Nobody collects."""


def mark_values(scope: Scope) -> None:
    """Values go a way of their own, on which the framework does not note the route."""
    scope["state"]["route"] = _VALUES
