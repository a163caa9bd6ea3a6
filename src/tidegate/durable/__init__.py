"""Releases that survive kill −9, power cuts, restarts and audits.

values → DurableRelease.push → charge the ledger → release → journal + state, one transaction
       → the values are written out; what was lost on the way is replayed from the journal
"""

from tidegate.durable.durable_release import DurableRelease
from tidegate.durable.folder_lock import StateError, StorageError
from tidegate.durable.transfer import Transferred, transfer

__all__ = ["DurableRelease", "StateError", "StorageError", "Transferred", "transfer"]
