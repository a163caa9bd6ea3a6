"""Law 2 for keys, events and several columns: after kill −9 the output is the unkilled one.

`TIDEGATE_KILLS=240 pytest tests/keyed/test_kills_of_keys.py` is the heavy run.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.depth import depth
from tests.durable.drivers import driven

KILLS = int(os.environ.get("TIDEGATE_KILLS", depth("6", "12")))
DRIVER = Path(__file__).with_name("kill_keys_driver.py")


def test_kills_leave_no_trace() -> None:
    results, kinds = driven(DRIVER, 20261117, KILLS, seconds=3000)
    assert len(results) == 9
    assert sum(kinds.values()) >= 0.9 * KILLS, results
    assert len(kinds) >= depth(2, 3)
