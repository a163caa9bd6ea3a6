"""A released file: open and query it without the state that made it.

| module | what it is |
| --- | --- |
| `file` | the file, its metadata, and what to know about its answers |
| `scan` | released values → running block sums |
| `index` | the block sums, in a file beside it |
| `growth` | has an indexed file only grown? |
"""

from tidegate.released.file import ReleasedFile

__all__ = ["ReleasedFile"]
