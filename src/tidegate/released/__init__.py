"""A released file, understood and queried without the state that made it.

| module | what it is |
| --- | --- |
| `file` | the file and its metadata: what it is, and what to know about answers from it |
| `scan` | released values → running block sums |
| `index` | the block sums, kept in a file beside it |
| `growth` | whether a file is the one that was indexed, with more rows |
"""

from tidegate.released.file import ReleasedFile

__all__ = ["ReleasedFile"]
