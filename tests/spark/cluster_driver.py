"""A driver that can be killed: releases the files of a folder on a cluster, batch by batch.

python cluster_driver.py MASTER FOLDER
"""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import tidegate.spark as ts
from tests.spark.conftest import JAVA, SETTINGS
from tests.spark.streams import fixed
from tidegate.spark.release_labels import label_of


def main() -> None:
    master, folder = sys.argv[1], Path(sys.argv[2])
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("killed")
    more = {
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": JAVA,
        "spark.task.maxFailures": "20",
        "spark.network.timeout": "20s",
        "spark.network.timeoutInterval": "5s",
        "spark.executor.heartbeatInterval": "2s",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    for name, value in {**SETTINGS, **more}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    source = spark.readStream.schema("key string, n long, value double")
    released = ts.release(
        source.option("maxFilesPerTrigger", 1).parquet(str(folder / "in")),
        fixed(),
        key="key",
        order="n",
        value="value",
        keys_are_public=True,
        shards=6,
        secret=f"file:{folder / 'secret'}",
    )
    query = (
        released.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    label = label_of(None, "key", "n", "value", None)
    (folder / "query").write_text(f"{query.id}/{label}")
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
