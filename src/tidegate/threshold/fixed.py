"""A threshold that is known in advance."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tidegate.guarantee import Guarantee, free
from tidegate.lattice import IntArray, Lattice
from tidegate.randomness import Keystream
from tidegate.settings import Exact, Spec


@dataclass(frozen=True, repr=False)
class Fixed(Spec):
    """Truncate at `value`, a public number. No hold-out: every value is released.

    Guarantee: free. It looks at no data, so `value` must not have been read off this stream.

    >>> Fixed(21).holdout
    0
    """

    KIND: ClassVar[str] = "threshold.Fixed"

    value: Exact = Exact()

    @property
    def bound(self) -> Fraction:
        """The threshold: values above it do not matter."""
        return self.value

    @property
    def holdout(self) -> int:
        """0: no value is needed."""
        return 0

    @property
    def guarantee(self) -> Guarantee:
        """No cost."""
        return free()

    def ceiling(self, lattice: Lattice) -> int:
        """The threshold itself."""
        return lattice.top

    def choose(self, values: IntArray, lattice: Lattice, keystream: Keystream) -> int:
        """The threshold in lattice units, whatever the data."""
        return lattice.top
