"""Metrics for Prometheus: public facts only, no counts of what was not released."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from tidegate.service.devices.device_request_group import DeviceRequestGroup
from tidegate.service.live_readers import LiveReaders
from tidegate.service.push_group import PushGroup

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counts released data."""

    def __init__(self, live: LiveReaders) -> None:
        self._registry = CollectorRegistry()
        self._rows = Counter(
            "tidegate_released_rows", "Released rows.", ["stream"], registry=self._registry
        )
        self._groups = Counter(
            "tidegate_transactions", "Groups of requests that were committed.",
            registry=self._registry,
        )  # fmt: skip
        self._reports = Counter(
            "tidegate_device_reports", "Reports of devices, by what became of them.",
            ["task", "outcome"], registry=self._registry,
        )  # fmt: skip
        self._asked = Counter(
            "tidegate_devices_asked", "Devices that were told what they are asked.", ["task"],
            registry=self._registry,
        )  # fmt: skip
        readers = Gauge("tidegate_live_readers", "Live readers.", registry=self._registry)
        readers.set_function(lambda: live.readers)

    def count(self, group: PushGroup) -> None:
        """Count what a group released. Groups of events that release nothing are not counted."""
        if group.rows:
            self._groups.inc()
        for stream, pieces in group.rows.items():
            self._rows.labels(stream).inc(sum(rows.values.size for rows in pieces))

    def count_devices(self, working: DeviceRequestGroup) -> None:
        """Count questions and reports of devices; both are public in this model."""
        for (task, outcome), count in working.counts().items():
            if outcome == "asked":
                self._asked.labels(task).inc(count)
            else:
                self._reports.labels(task, outcome).inc(count)

    def text(self) -> bytes:
        """All metrics, in the format of Prometheus."""
        return generate_latest(self._registry)
