"""Writes docs/reference/messages.schema.json from the limits in the code.

`message_schemas.py [--check]`: with --check nothing is written, and the exit code says whether the
file is current.
"""

import json
import sys
from pathlib import Path

from tidegate.local.message_schemas import schemas

FILE = Path(__file__).parent.parent / "docs" / "reference" / "messages.schema.json"


def text() -> str:
    """The file as it should be."""
    return json.dumps(schemas(), indent=1) + "\n"


def main() -> None:
    """Write the file, or say whether it is current."""
    if "--check" not in sys.argv:
        FILE.write_text(text(), encoding="utf-8")
    elif FILE.read_text(encoding="utf-8") != text():
        sys.exit("docs/reference/messages.schema.json is not current: run tools/message_schemas.py")


if __name__ == "__main__":
    main()
