"""Releases that survive: kill −9, power cuts, restarts, and audits.

    values → DurableRelease.push → charge the ledger → release → journal + state, one transaction
           → the caller writes the values out; what was lost on the way is replayed from the journal

| module | what it holds |
|---|---|
| `folder` | its lock, and the newest entry of the ledger that was seen |
| `store`, `tables` | one SQLite file: state, journal, input digests; nothing of Tidegate's logic |
| `inputs` | keyed digests of the input so far: was it resent, or changed? |
| `journal` | released block sums ↔ published values, bit for bit |
| `looking_back` | the record of the whole past, from the journal |
| `charges`, `payments` | which budget each stretch of the input costs; charged before it is read |
| `saving`, `users` | everything that a push changes, in one transaction |
| `opening`, `facts` | may this state and its ledger be used; what is public about a release |
| `reading` | facts, answers, replays: from committed state only |
| `release` | `DurableRelease`, which puts these together |
"""

from tidegate.durable.folder import StateError, StorageError
from tidegate.durable.release import DurableRelease

__all__ = ["DurableRelease", "StateError", "StorageError"]
