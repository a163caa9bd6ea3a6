"""What questions are asked of: a stream as it is now, while the gate goes on."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.durable.journal_record import JournalView
from tidegate.keyed.committed import CommittedKeyed
from tidegate.keyed.view import KeyedView
from tidegate.service.streams import Run

View = JournalView | KeyedView


def view_of(run: Run, keys: Iterable[str] | None = None) -> View:
    """A view of a stream; of some keys, where it has keys and not all are asked for.

    Made under the gate's lock, in microseconds. What is asked of it holds up nothing: released data
    are public, and no answer changes what is released.
    """
    return run.release.view(keys) if isinstance(run, CommittedKeyed) else run.view()
