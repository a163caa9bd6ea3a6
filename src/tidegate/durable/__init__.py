"""Releases that survive: kill −9, power cuts, restarts, and audits.

    values → DurableRelease.push → charge the ledger → release → journal + state, one transaction
           → the caller writes the values out; what was lost on the way is replayed from the journal

| module | what it holds |
|---|---|
| `store` | one SQLite file: state, journal, input digests; a lock; nothing of Tidegate's logic |
| `inputs` | keyed digests of the input so far: was it resent, or changed? |
| `journal` | released block sums ↔ published values, bit for bit |
| `looking_back` | the record of the whole past, from the journal |
| `charges` | which budget each stretch of the input costs |
| `opening`, `facts` | may this state be used; what is public about a release |
| `release` | `DurableRelease`, which puts these together |
"""

from tidegate.durable.release import DurableRelease
from tidegate.durable.store import StateError, StorageError

__all__ = ["DurableRelease", "StateError", "StorageError"]
