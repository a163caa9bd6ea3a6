"""Settings of servers for tests.

Without the linear program of the default report, which takes a while in every new process.
"""

from typing import Any

GIVEN: dict[str, Any] = {"epsilon": 1, "bound": 100, "threshold": 40, "report": "hybrid"}
ASKING: dict[str, Any] = {
    "epsilon": 2,
    "bound": 500,
    "holdout": 600,
    "horizon": 2**12,
    "report": "hybrid",
}
