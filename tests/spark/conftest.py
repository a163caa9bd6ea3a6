"""A session of Spark in this process, made once; skipped where Java or pyspark is missing."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SECRET = bytes(range(32))
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# Half of the time is the start of Java: compile little, and believe Spark's own classes.
JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
_HERE = Path(__file__).parent
WORKERS_PATH = os.pathsep.join(map(str, (_HERE / "python_path", _HERE.parents[1])))
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "OFF",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",  # compiling takes longer than these rows
    "spark.driver.extraJavaOptions": JAVA,
    "spark.python.daemon.module": "tests.spark.warm_daemon",
}


def needed() -> None:
    """Skip unless Spark can run here."""
    pytest.importorskip("pyspark", reason="needs pyspark: pip install '.[spark]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("needs Java 17 or newer, for Spark")


@pytest.fixture(scope="session")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("secret") / "master"
    path.write_bytes(SECRET)
    return path


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    needed()
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    place = tmp_path_factory.mktemp("spark")
    builder = builder.config("spark.local.dir", str(place / "local"))
    builder = builder.config("spark.sql.warehouse.dir", str(place / "warehouse"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", WORKERS_PATH, prepend=os.pathsep)  # Java hands it on
        session = builder.getOrCreate()
    yield session
    session.stop()


# Ten kills of a cluster take minutes: `make test-cluster`.
collect_ignore = [] if os.environ.get("TIDEGATE_CLUSTER") else ["test_cluster.py"]
