"""Pass messages of a broker through a durable release into a sink: nothing lost, nothing twice.

    Reader: messages after our offset → values → push → commit ║ sink → acknowledge
                                      state, journal and offset ║

The offset is in the commit of the values that it belongs to, so they move together. After a crash
the broker is asked for what follows the committed offset, whatever it has delivered meanwhile; rows
that the sink lacks come from the journal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tidegate.durable.durable_release import DurableRelease
from tidegate.durable.folder_lock import StateError
from tidegate.durable.output_writer import OutputTarget
from tidegate.durable.transfer import TransferPassage, Transferred
from tidegate.errors import SettingError
from tidegate.io import Batch
from tidegate.io.brokers import Reader
from tidegate.io.brokers.payloads import Payloads

_WAIT = 0.5  # seconds between looks at whether to stop


class BrokerMarks(NamedTuple):
    """The broker's offsets of the values of one batch of messages.

    Attributes:
        place: of the first value of the first message, counted over all values.
        before: the offset before these messages; None: they are the first.
        offsets, counts: of each message, and how many values it has.
    """

    place: int = 0
    before: str | None = None
    offsets: Sequence[str] = ()
    counts: Sequence[int] = ()

    def text(self) -> str:
        """The marks as text, for the state."""
        return json.dumps([self.place, self.before, self.offsets, self.counts])

    def resume(self, seen: int) -> tuple[str | None, int]:
        """The offset to continue after once `seen` values are taken, and how many of them the
        next message holds.

        >>> marks = BrokerMarks(10, "6", ["7", "8"], [3, 2])
        >>> [marks.resume(seen) for seen in (10, 12, 13, 15)]
        [('6', 0), ('6', 2), ('7', 0), ('8', 0)]
        """
        after, left = self.before, seen - self.place
        for offset, count in zip(self.offsets, self.counts, strict=True):
            if left < count:
                break
            after, left = offset, left - count
        return after, left


def subscribe_to_broker(
    reader: Reader,
    payloads: Payloads,
    run: DurableRelease,
    sink: Any,
    *,
    follow: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    progress: Callable[[int], None] | None = None,
    warn: Callable[[str], None],
    format: str | None = None,  # noqa: A002  # as in open_sink
    written: int | None = None,
) -> Transferred:
    """Release the messages of a broker, and complete the sink.

    Args:
        reader: from `tidegate.io.brokers.open_reader`.
        payloads: how messages are read.
        run: the release, whose state has the offset.
        sink: a file, standard output, or a sink such as `open_broker_sink` gives.
        follow: wait for more messages for ever; otherwise end when there are none.
        stopped: a function that says whether to end.
        progress, warn, format, written: as in `tidegate.durable.transfer`.
    """
    if run.seen and not run.offset:
        raise StateError("this state was begun with another kind of input: use another folder")
    output = OutputTarget.to(sink, format)
    held = output.rows_held(lambda: run.clock)
    if held is not None:
        written = held
    if not follow and not reader.numbered:
        raise SettingError("follow", "is needed: a topic has no end")
    if reader.numbered == payloads.numbered:
        raise SettingError("order", "is for brokers that do not number their messages, and only")
    marks = BrokerMarks(*json.loads(run.offset)) if run.offset else BrokerMarks()
    after, skip = marks.resume(run.seen)
    options: dict[str, Any] = {"start": run.seen, "written": written, "progress": progress}
    with TransferPassage(run, output, warn=warn, **options) as passage:
        while not stopped():
            messages = reader.read(after, _WAIT)
            if not messages:
                if not follow and reader.ended(after):
                    break
                continue
            taken = payloads.read(messages, after)
            if taken.offsets:
                place = run.seen - skip
                run.mark(BrokerMarks(place, after, taken.offsets, taken.counts).text())
                rest = taken.batch.part(skip)
                passage.take(Batch(rest.values, start=run.seen, times=rest.times))
                run.save()
                after, skip = taken.offsets[-1], 0
            reader.taken(messages)
        return passage.finish()
