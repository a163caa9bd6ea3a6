"""`make demo` and `python -m tidegate.demo`."""

from __future__ import annotations

from tidegate.demo.one_stream import main

if __name__ == "__main__":
    main()
