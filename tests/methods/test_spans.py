"""Records of irregular spans: whatever is damaged in them is refused, and says nothing else."""

import numpy as np
import pytest

import tidegate as tg
from tests.laws.catalogue import stream
from tidegate.errors import SnapshotError
from tidegate.sealing import seal, unseal


def damaged(segment, name, change):
    return {**segment, name: change(segment[name])}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("spans", lambda spans: spans * 0),
        ("spans", lambda spans: -spans),
        ("spans", lambda spans: spans[:-1]),
        ("spans", lambda spans: spans.astype(float)),
        ("spans", lambda spans: np.concatenate((spans[1:] + spans[:1], spans[:1]))),
        ("marks", lambda marks: -marks),
        ("marks", lambda marks: marks[:-1]),
        ("predictions", lambda levels: levels[1:]),
        ("blocks", lambda blocks: blocks + 1),
        ("first", lambda first: first + 1),
        ("end", lambda end: end + 10**6),
    ],
)
def test_damaged_spans_are_refused(name, change):
    release = tg.methods.find("budget_distribution").made().start()
    release.push(stream(400))
    header, body = unseal(release.save_record(), None)
    body["segments"] = [damaged(segment, name, change) for segment in body["segments"]]
    with pytest.raises(SnapshotError):
        tg.load_record(seal(header, body, None))
