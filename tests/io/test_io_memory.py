"""Files far larger than what a process uses: memory does not grow with them."""

from __future__ import annotations

import json

import pytest

from tests.depth import in_turn
from tests.fresh_process import printed_by

# In a process of its own: the peak of a process never falls. `prepare` has all imports and
# first allocations behind it before the level is taken.
PROGRAM = """
import json, resource, sys
import numpy as np
from tidegate.io import open_sink, open_source, read_released

kind, folder = sys.argv[1], sys.argv[2]

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def work(rows):
    path = f"{folder}/{rows}.{kind}"
    values = np.repeat(np.arange(1 << 13) / 8, 32)
    with open_sink(path) as sink:
        for at in range(0, rows, values.size):
            sink.write(at, values[: rows - at])
    with open_source(path) as source:
        count = sum(len(batch) for batch in source.batches())
    assert count == rows == sum(values.size for _, values in read_released(path))

work(800_000)
before = peak()
work(int(sys.argv[3]))
print(json.dumps([before, peak()]))
"""


@pytest.mark.parametrize(
    ("kind", "rows"),
    in_turn([("csv", 2_600_000), ("csv.zst", 2_600_000), ("parquet", 5_000_000)], 0),
)
def test_memory_is_bounded(tmp_path, kind, rows):
    before, after = json.loads(printed_by(PROGRAM, kind, tmp_path, rows))
    # The numbers alone are 21 to 40 MB, and their text 39.
    assert after - before < 20
    for file in tmp_path.iterdir():
        file.unlink()


def test_what_is_imported_and_when(tmp_path):
    """Nothing by the core; no pandas by files, though pyarrow's conversions import it."""
    program = (
        "import sys, tidegate; loaded = set(sys.modules)\n"
        "import tidegate.io\n"
        "assert not any(name.startswith('tidegate.io') for name in loaded)\n"
        "assert 'pyarrow' not in sys.modules and 'zstandard' not in sys.modules\n"
        "import numpy\n"
        "values = numpy.arange(300_000) / 8\n"
        "for kind in ('csv', 'jsonl', 'parquet'):\n"
        "    with tidegate.io.open_sink(sys.argv[1] + kind) as sink:\n"
        "        sink.write(0, values)\n"
        "    with tidegate.io.open_source(sys.argv[1] + kind, column='value') as source:\n"
        "        found = numpy.concatenate([batch.values for batch in source.batches()])\n"
        "    assert found.tolist() == values.tolist()\n"
        "assert 'pyarrow' in sys.modules and 'pandas' not in sys.modules\n"
    )
    assert printed_by(program, f"{tmp_path}/released.") == ""
