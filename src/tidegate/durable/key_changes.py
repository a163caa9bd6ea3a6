"""Change or remove the key of a durable release's state, or erase the state."""

from __future__ import annotations

from tidegate.durable.committed_reading import Reading
from tidegate.errors import SettingError
from tidegate.sealing import seal


class KeyChanges(Reading):
    """A durable release whose state can be sealed anew, or erased."""

    @property
    def sealed(self) -> bool:
        """Whether the state on the disk is encrypted."""
        return self._committer.sealed

    def change_key(self, key: bytes) -> None:
        """Seal the state with another key; the old key opens nothing afterwards."""
        if not isinstance(key, bytes):  # None would unseal it
            raise SettingError("key", "must be 32 bytes; to have no key, use unseal()")
        seal({}, {}, key)  # refuses an invalid key before anything changes
        self._sealed_anew(key)

    def unseal(self) -> None:
        """Keep the state unencrypted from now on: whoever can read the folder can read raw sums."""
        self._sealed_anew(None)

    def _sealed_anew(self, key: bytes | None) -> None:
        with self._ownership.lock:
            self._check()
            self._ownership.begin()
            self._committer.change_key(key)
            self._ownership.done()

    def erase(self) -> None:
        """Remove everything secret: raw sums, held-out values, the noise key. This is final.

        What was released can no longer be emitted again: keep the output.
        """
        with self._ownership.lock:
            self._check()
            self._ownership.begin()  # never done: nothing more can be released or saved
            self._committer.erase()
