"""Snapshots and stored records as bytes, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.errors import SnapshotError
from tidegate.randomness import Epoch
from tidegate.record.segments.segment_codec_and_joining import (
    restored_segment,
    segment_array_as_text,
    segment_array_from_text,
    segment_state,
)
from tidegate.run.earlier_pipelines import earlier_pipelines
from tidegate.sealing import seal, unseal
from tidegate.state_as_bytes import understood

if TYPE_CHECKING:
    from tidegate.record.record import Record
    from tidegate.run.pipeline import Pipeline


def sealed_snapshot(
    pipeline: Pipeline, epoch: Epoch, position: int, state: Mapping[str, Any], key: bytes | None
) -> bytes:
    """The state of a release with its noise key, as bytes: as secret as the raw data."""
    header = {
        "content": "snapshot",
        "settings": pipeline.settings_digest,
        "epoch": epoch.id.hex(),
        "position": position,
    }
    return seal(header, {"secret": epoch.secret, "simulation": epoch.simulation, **state}, key)


def opened_snapshot(
    pipeline: Pipeline, data: bytes, key: bytes | None
) -> tuple[Pipeline, Epoch, dict[str, Any]]:
    """Pipeline, epoch and state from a `sealed_snapshot`, if it belongs to this pipeline."""
    header, body = unseal(data, key)
    if header.get("content") != "snapshot":
        raise SnapshotError("this is not a snapshot of a release")
    pipeline = _pipeline_with_digest(pipeline, header["settings"])
    return pipeline, Epoch(body["secret"], bytes.fromhex(header["epoch"]), body["simulation"]), body


def _pipeline_with_digest(pipeline: Pipeline, digest: str) -> Pipeline:
    """This pipeline, or the earlier one of the snapshot. Making those is slow: only on demand."""
    if pipeline.settings_digest == digest:
        return pipeline
    for earlier in earlier_pipelines(pipeline):
        if earlier.settings_digest == digest:
            return earlier
    raise SnapshotError("it belongs to a pipeline with other settings")


def record_as_snapshot(pipeline: Pipeline, epoch: str, position: int, record: Record) -> bytes:
    """A record as bytes: released data and public facts only."""
    body = {
        "settings": pipeline.settings(),
        "guarantee": record.guarantee,
        "segments": [segment_state(segment) for segment in record.segments],
    }
    return seal({"content": "record", "epoch": epoch, "position": position}, body, key=None)


def load_record(data: bytes) -> Record:
    """A stored record (`Release.save_record`), ready to be queried.

    >>> import tidegate as tg
    >>> release = tg.adaptive(epsilon=1, bound=500, horizon=4096).start()
    >>> values = release.push(tg.synthetic.baskets(4096))
    >>> load_record(release.save_record()).query(0, 1000) == release.query(0, 1000)
    True
    """
    from tidegate.record.record import Record  # on demand: who only pushes needs none of it
    from tidegate.run.pipeline import Pipeline

    header, body = unseal(data, key=None)
    if header.get("content") != "record":
        raise SnapshotError("this is not a stored record")
    with understood():
        pipeline = Pipeline.from_settings(body["settings"])
        segments = [restored_segment(pipeline.method, state) for state in body["segments"]]
        return Record(segments, body["guarantee"])


def plain_record_snapshot(record: Record) -> list[dict[str, Any]]:
    """The segments of a record as plain data, for files that hold text."""
    return [segment_array_as_text(segment_state(segment)) for segment in record.segments]


def record_of_snapshot(pipeline: Pipeline, segments: Sequence[Any], guarantee: str) -> Record:
    """The record from what `plain_record_snapshot` returned."""
    from tidegate.record.record import Record  # on demand: who only pushes needs none of it

    found = [
        restored_segment(pipeline.method, segment_array_from_text(state)) for state in segments
    ]
    return Record(found, guarantee)
