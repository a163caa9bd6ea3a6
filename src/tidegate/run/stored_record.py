"""Load a stored record from bytes, with a pipeline built from its settings."""

from __future__ import annotations

from tidegate.errors import SnapshotError
from tidegate.record.record import Record
from tidegate.record.segments.segment_codec_and_joining import restored_segment
from tidegate.run.pipeline import Pipeline
from tidegate.sealing import unseal
from tidegate.state_as_bytes import understood


def load_record(data: bytes) -> Record:
    """A stored record (`Release.save_record`), ready to be queried."""
    header, body = unseal(data, key=None)
    if header.get("content") != "record":
        raise SnapshotError("this is not a stored record")
    with understood():
        pipeline = Pipeline.from_settings(body["settings"])
        segments = [restored_segment(pipeline.method, state) for state in body["segments"]]
        return Record(segments, body["guarantee"])
