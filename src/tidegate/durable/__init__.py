"""Releases that survive kill −9, power cuts, restarts and audits.

    values → DurableRelease.push → charge the ledger → release → journal + state, one transaction
           → the values are written out; what was lost on the way is replayed from the journal

| module | what it holds |
|---|---|
| `transfer` | source → release → sink, exactly once |
| `output_writer`, `output_check`, `memory_run` | parts of it |
| `durable_release` | `DurableRelease`: opening, push, keys |
| `public_side` | metadata, answers and replays of a durable release: from committed state only |
| `commit` | everything that a push changes, in one transaction |
| `charging` | what each part of the input costs, and charging it before it is read |
| `resume_checks` | may this state and its ledger be used? |
| `journal`, `journal_record` | released block sums → published values, bit for bit; the record |
| `input_digests`, `user_log` | keyed digests of the input so far; counts of users |
| `metadata` | public facts about a release |
| `folder_lock`, `store`, `state_file` | the lock file and one SQLite file: no logic |
"""

from tidegate.durable.durable_release import DurableRelease
from tidegate.durable.folder_lock import StateError, StorageError
from tidegate.durable.transfer import Transferred, transfer

__all__ = ["DurableRelease", "StateError", "StorageError", "Transferred", "transfer"]
