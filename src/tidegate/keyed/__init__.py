"""Many streams of one pipeline: a stream for each key.

keys, values → names: code of each row → engine: one release for each key ║ rows with keys
               undeclared: dropped       its own noise, by HKDF           ║ queries, totals
"""

from tidegate.keyed.event_release import KeyedEventRelease
from tidegate.keyed.release import KeyedRelease
from tidegate.keyed.rows import KeyedRows
from tidegate.keyed.specification import Keyed, keyed

__all__ = ["Keyed", "KeyedEventRelease", "KeyedRelease", "KeyedRows", "keyed"]
