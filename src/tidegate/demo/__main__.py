"""`make demo` and `python -m tidegate.demo`: options, and the final message."""

from __future__ import annotations

import argparse
from pathlib import Path

from tidegate.demo.table_and_picture import show


def main() -> None:
    """Release two weeks of made-up requests per second; print a table; draw a picture."""
    show(**vars(_demo_options()))
    print("See it move: .venv/bin/pip install -e '.[service]' && .venv/bin/tidegate demo --serve")


def _demo_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tidegate.demo", description=main.__doc__)
    parser.add_argument("--epsilon", default="0.5", help="privacy budget (default: 0.5)")
    parser.add_argument("--days", type=int, default=14, help="length of the stream (default: 14)")
    parser.add_argument("--seed", type=int, default=0, help="of the made-up data (default: 0)")
    parser.add_argument("--noise-seed", type=int, help="repeat the noise too: no privacy")
    parser.add_argument("--picture", type=Path, default=Path("tidegate-demo.png"))
    options = parser.parse_args()
    if options.days < 7:
        parser.error("--days must be at least 7: the longest range is a week")
    return options


if __name__ == "__main__":
    main()
