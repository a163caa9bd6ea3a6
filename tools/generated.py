"""A generated file: write it, or with --check say whether it is current."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def write_or_check(wanted: Mapping[Path, str], script: str) -> int:
    """Write the files that differ from these texts; with --check say which do, and fail."""
    stale = [
        path
        for path, text in wanted.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path} is stale: run python tools/{script}")
        return 1 if stale else 0
    for path in stale:
        path.write_text(wanted[path], encoding="utf-8")
    return 0
