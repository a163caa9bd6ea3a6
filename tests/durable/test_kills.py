"""Law 2: kill −9 anywhere, run the same command again, and the output is the unkilled one's."""

from pathlib import Path

from tests.depth import depth
from tests.durable.drivers import driven

KILLS = depth(36, 209)
DRIVER = Path(__file__).with_name("kill_driver.py")


def test_kills_leave_no_trace():
    """Two hundred of them at the gate."""
    results, kinds = driven(DRIVER, 20261115, KILLS, seconds=900)
    assert sum(kinds.values()) >= depth(34, 200), results
    assert len(results) == 18
    assert kinds["random moment"] >= depth(6, 40)
    assert len(kinds) >= depth(8, 12)  # at the gate all but a few ways to die are met
