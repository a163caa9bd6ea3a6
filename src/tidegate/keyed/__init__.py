"""Many streams of one pipeline: a stream for each key.

    keys, values → names: code of each row → engine: one release for each key ║ rows with keys
                   undeclared: dropped       its own noise, by HKDF           ║ queries, totals

| module | what it is |
| --- | --- |
| `specification` | `keyed(pipeline, keys=…)`: what to release, and its guarantee |
| `names` | keys as text, and the code of each row |
| `release`, `public_side` | the run: rows in, released rows out; what can be read off it |
| `objects` | the general engine: a `Release` for each key |
| `event_release`, `event_objects` | events by key: every key has a row for every tick |
| `engines` | which engine runs the keys |
| `columns`, `adaptive_columns` | engines in columns: one threshold, all keys in arrays |
| `grove_cache`, `tree_noise`, `noise_ahead`, `segments` | their noise, made ahead; rows in blocks |
| `rows` | released rows of many keys |
| `queries` | answers by key, tables, totals over groups of keys |
| `snapshot` | the state as bytes |
| `transfer` | source → keyed release → file |
| `sink`, `row_text`, `metadata` | the file that rows are written to, and its public facts |
| `durable`, `store`, `committed_rows`, `durable_transfer` | state on the disk; every row once |
| `file`, `file_index` | a released file with keys: `tidegate.open` |
"""

from tidegate.keyed.event_release import KeyedEventRelease
from tidegate.keyed.release import KeyedRelease
from tidegate.keyed.rows import KeyedRows
from tidegate.keyed.specification import Keyed, keyed

__all__ = ["Keyed", "KeyedEventRelease", "KeyedRelease", "KeyedRows", "keyed"]
