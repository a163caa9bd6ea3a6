"""Spark's daemon of Python workers, with all modules loaded before it forks the first of them.

A setting of Spark (`spark.python.daemon.module`). Each worker would load them for itself, which
takes longer than all that the tests ask of it.
"""

import gc

from pyspark import daemon

import tidegate.spark.shard_operators  # noqa: F401  # with pandas, pyarrow and what releases

if __name__ == "__main__":
    gc.freeze()  # a worker collects garbage after every task: not among modules
    daemon.manager()
