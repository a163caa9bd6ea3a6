"""Law 2: kill −9 anywhere, run the same command again, and the output is the unkilled one's."""

from pathlib import Path

from tests.durable.drivers import driven

KILLS = 209
DRIVER = Path(__file__).with_name("kill_driver.py")


def test_two_hundred_kills_leave_no_trace():
    results, kinds = driven(DRIVER, 20261115, KILLS, seconds=900)
    assert sum(kinds.values()) >= 200, results
    assert len(results) == 18
    assert kinds["random moment"] >= 40
    assert len(kinds) >= 12  # all but a few ways to die were met
