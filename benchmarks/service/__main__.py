"""The service under load, each part beside its target.

    python -m benchmarks.service                              # SQLite, every quick part
    python -m benchmarks.service single arrow                 # some of them
    python -m benchmarks.service single --postgres            # on a PostgreSQL server of its own
    python -m benchmarks.service query --stored 100000000     # a minute, and 5 GB on the disk
    python -m benchmarks.service gone --seconds 60            # its PostgreSQL stops under load
    python -m benchmarks.service soak --minutes 30
    python -m benchmarks.service.devices                      # devices that ask and report

The server is a process of its own, `tidegate serve`; clients are in this one. On a machine that
does other things too, read the processor time of the server: a core gives one second in a second.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.service import endurance, ingest, many_keys, questions
from benchmarks.service.postgres import Postgres
from benchmarks.service.serving import Server

QUICK = ("single", "arrow", "table", "live", "keys", "overload")
LONG = ("query", "gone", "soak")


def main() -> None:
    lines = (__doc__ or "").splitlines()
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description="\n".join(lines), formatter_class=raw)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join((*QUICK, *LONG)))
    parser.add_argument("--database", help="postgresql://… of an empty database; default: SQLite")
    parser.add_argument("--postgres", action="store_true", help="start PostgreSQL, and use it")
    parser.add_argument("--folder", type=Path, help="for the data; default: a temporary one")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--values", type=int, default=5_000_000)
    parser.add_argument("--stored", type=int, default=100_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--readers", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60, help="that the database is gone")
    parser.add_argument("--minutes", type=float, default=30, help="of the soak")
    parser.add_argument("--pace", type=float, default=20, help="turns of the soak in a second")
    parser.add_argument("--horizon", type=int, default=4096, help="of the streams of the soak")
    given = parser.parse_args()
    parts = given.parts or list(QUICK)
    if wrong := set(parts) - {*QUICK, *LONG}:
        parser.error(f"there is no part {', '.join(sorted(wrong))}")
    own = Postgres() if given.postgres or "gone" in parts else None
    database = own.address if own is not None else given.database
    try:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            server = Server(Path(folder) / "gate", database)
            print(json.dumps({"start, s": round(server.start(), 2), "MB": round(server.memory)}))
            run: dict[str, Callable[[], None]] = {
                "single": lambda: ingest.single(server, given.requests),
                "arrow": lambda: ingest.arrow(server, given.values),
                "query": lambda: questions.query(server, given.stored),
                "table": lambda: questions.table(server),
                "live": lambda: questions.live(server, given.readers),
                "keys": lambda: many_keys.keys(server, given.keys),
                "overload": lambda: endurance.overload(server, given.requests // 10),
                "gone": lambda: endurance.gone(server, own or Postgres(), given.seconds),
                "soak": lambda: endurance.soak(server, given.minutes, given.pace, given.horizon),
            }
            try:
                for part in parts:
                    run[part]()
            finally:
                server.stop()
    finally:
        if own is not None:
            own.remove()


if __name__ == "__main__":
    main()
