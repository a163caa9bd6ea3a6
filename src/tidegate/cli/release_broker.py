"""`tidegate release nats://… -o …`: from a broker, to a broker, or both."""

from __future__ import annotations

from typing import Any

from tidegate.cli.exit_codes_and_signals import complain, stopping_on_signal
from tidegate.cli.pipeline_from_options import build_pipeline
from tidegate.errors import SettingError
from tidegate.io.brokers.address import Address, is_broker

_GO_WITHOUT = ("by", "every", "user-column", "header", "delimiter", "decimal", "format", "stdin")


def of_broker(source: str, options: dict[str, Any]) -> bool:
    """Whether the input or the output is a broker."""
    return is_broker(source) or is_broker(options.get("output"))


def check_broker(source: str, options: dict[str, Any]) -> None:
    """Refuse options that contradict each other, before anything is read."""
    for setting, place in (("source", source), ("output", options.get("output"))):
        if is_broker(place):
            Address.read(str(place), setting)
    if "state" not in options:
        raise SettingError(
            "state", "is needed for a broker: it keeps the offset, and what was released"
        )
    for name in _GO_WITHOUT:
        if name in options and is_broker(source):
            raise SettingError(name, "cannot be used with a broker")
    if is_broker(source) and source.startswith("mqtt:") and "order" not in options:
        raise SettingError(
            "order",
            "is needed for mqtt://: the key of the number of a message. MQTT delivers again, and "
            "only a number tells that a message was counted already",
        )
    if "order" in options and not source.startswith("mqtt:"):
        raise SettingError("order", "is for mqtt://: other brokers number their messages")
    if "gaps" in options and (not is_broker(source) or source.startswith("mqtt:")):
        raise SettingError("gaps", "is for nats://, redis:// and kafka://, which number messages")


def run_broker(source: str, options: dict[str, Any]) -> None:
    """Release messages of a broker, or release a file into a broker."""
    from tidegate.cli.release import (
        close,
        source_options_of_release,
        state_options_of_release,
        tell_release_is_unsealed,
    )
    from tidegate.durable import DurableRelease, transfer
    from tidegate.io import open_source
    from tidegate.io.brokers import open_broker_sink

    pipeline, quiet = build_pipeline(options), bool(options.get("quiet"))
    output = options.get("output")
    with DurableRelease.open(
        options["state"], pipeline, **state_options_of_release(options)
    ) as run:
        tell_release_is_unsealed(run, options)
        # The same after a restart: an MQTT session belongs to it.
        client = run.epoch[:16]
        sink: Any = output
        if is_broker(output):
            sink = open_broker_sink(str(output), epoch=run.epoch, client=client)
        new = output in (None, "-") and options.get("emit", "all") == "new"
        into: dict[str, Any] = {
            "format": options.get("output-format"),
            "written": run.position if new else None,
            "warn": complain,
        }
        try:
            if is_broker(source):
                result = _subscribed_to_broker(source, run, sink, options, client, into)
            else:
                if is_broker(output):
                    sink.clock = lambda: run.clock
                    into["written"] = sink.written()
                with open_source(source, **source_options_of_release(options)) as opened:
                    result = transfer(opened, run, sink, **into)
        finally:
            if is_broker(output):
                sink.close()
        close(run, result, quiet=quiet)


def _subscribed_to_broker(
    source: str,
    run: Any,
    sink: Any,
    options: dict[str, Any],
    client: str,
    into: dict[str, Any],
) -> Any:
    from contextlib import closing

    from tidegate.durable.broker_subscription import subscribe_to_broker
    from tidegate.io.brokers import Gaps, open_reader
    from tidegate.io.brokers.payloads import Payloads

    names = ("column", "time", "zone", "order")
    payloads = Payloads(
        **{name: options.get(name) for name in names}, late=options.get("late", "refuse")
    )
    stop, gaps = _BrokerStop(), Gaps(options.get("gaps", "refuse"), into["warn"])
    with closing(open_reader(source, client=client, gaps=gaps)) as reader, stopping_on_signal(stop):
        follow = bool(options.get("follow"))
        return subscribe_to_broker(
            reader, payloads, run, sink, follow=follow, stopped=lambda: stop.asked, **into
        )


class _BrokerStop:
    """What a signal closes: the present batch is finished, then the run ends."""

    asked = False

    def close(self) -> None:
        """Ask the run to end."""
        self.asked = True
