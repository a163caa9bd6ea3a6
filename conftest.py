"""For tests and the examples of docstrings alike: where randomness comes from, and files go to."""

import gc
import os
import shutil
import signal
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

pytest_plugins = ("tests.entropy", "tests.reports")

# Where Spark is not installed, its modules cannot be imported to look for examples in them.
collect_ignore_glob = [] if find_spec("pyspark") else ["src/tidegate/spark/*"]

# Folders of tests are in memory where there is room for them: durable runs wait for the disk tens
# of thousands of times, and no test learns anything from that (power cuts are simulated).
_IN_MEMORY, _ROOM = Path("/dev/shm"), 4 << 30  # noqa: S108  # pytest makes folders of its own
if os.access(_IN_MEMORY, os.W_OK) and shutil.disk_usage(_IN_MEMORY).free > _ROOM:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))

# Compiled modules are kept, also where the environment says otherwise: two fifths of the time of a
# process that a test starts would be compiling.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Each worker has one core: threads for products of matrices would wait, busily, for the other's.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A job in the background of a shell inherits that Ctrl-C is ignored, and so would every process
# that a test starts: they would not hear the signals that they are tested with.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Nine thousand tests and all modules are there to stay: collecting garbage need not look at them,
# neither while they are made (a third of that time) nor whenever a test asks for it.
gc.disable()


def pytest_collection_finish() -> None:
    """From here on, garbage is what tests leave behind.

    On Python 3.14 hypothesis asks the collector who holds its generator, and does not find what is
    frozen.
    """
    if sys.version_info < (3, 14):
        gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """What was frozen stays so: pytest looks for garbage at the end, and Python once more.

    That would walk over all tests and modules, two seconds in every worker, when nobody else has
    anything to do.
    """
    gc.enable()
