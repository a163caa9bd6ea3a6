"""A PostgreSQL server of our own, with fsync, that can be stopped and started again."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path


class Postgres:
    """Listens on a socket in a folder of its own."""

    def __init__(self) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        initdb = shutil.which("initdb") or (str(found[-1]) if found else None)
        if initdb is None:
            raise SystemExit("PostgreSQL was not found: Debian has it in the package postgresql")
        self._control = str(Path(initdb).with_name("pg_ctl"))
        self._owner = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        self.folder = Path(tempfile.mkdtemp(prefix="tg-bench-", dir="/tmp"))
        if self._owner:
            shutil.chown(self.folder, "postgres", "postgres")
        self._run(initdb, "-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8")
        self.start()
        self.address = f"postgresql://postgres@/postgres?host={self.folder}"

    def _run(self, program: str, *words: str) -> None:
        command = [*self._owner, program, "-D", str(self.folder / "data"), *words]
        subprocess.run(command, check=True, capture_output=True)

    def start(self) -> None:
        """Start it; returns when it answers."""
        options = f"-k {self.folder} -c listen_addresses=''"
        self._run(self._control, "-w", "-o", options, "-l", str(self.folder / "log"), "start")

    def stop(self) -> None:
        """Stop it, as a machine that fails does."""
        self._run(self._control, "-m", "immediate", "-w", "stop")

    def remove(self) -> None:
        """Stop it for good."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
