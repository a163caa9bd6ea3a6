"""The base of perturbers that release irregular spans: stage, run, and noise by position."""

from __future__ import annotations

from typing import ClassVar, Protocol

from tidegate.errors import SettingError
from tidegate.exact_numbers import roughly
from tidegate.perturb.one_layout import OneLayoutBlocks, OneLayoutRun, OneLayoutStage
from tidegate.randomness import Keystream
from tidegate.stages import Layout

_BLOCK = 1024  # values: a record is kept and forgotten by blocks
_MOST_SCALE = 1 << 48  # of noise: 64 scales, and a few values, fit 64 bits


class _IrregularStage(Protocol):
    @property
    def horizon(self) -> int: ...


class IrregularStage(OneLayoutStage):
    """A perturber whose run determines the span of each number, and marks it."""

    irregular: ClassVar[bool] = True

    @property
    def block(self) -> int:
        """1: a stream may be cut after any value."""
        return 1

    def lengths(self: _IrregularStage, chunk: int) -> tuple[int, ...]:
        """Blocks of 1,024 values; their only purpose is what a record forgets together."""
        whole, rest = divmod(self.horizon, _BLOCK)
        return (_BLOCK,) * whole + ((rest,) if rest else ())

    def layouts(self, length: int, threshold: int, ceiling: int) -> tuple[Layout, ...]:
        """One layout: at most one leaf per value, with noise that is not that of a tree."""
        return (Layout(length, (length,), min(threshold, ceiling), (), (), consistent=False),)

    def noise_law(self, threshold: int) -> None:
        """None: the noise depends on decisions during the run."""
        return


class IrregularRun(OneLayoutRun):
    """Counts the values taken."""

    def __init__(
        self, stage: OneLayoutBlocks, threshold: int, ceiling: int, keystream: Keystream
    ) -> None:
        super().__init__(stage, threshold, ceiling, keystream)
        self.position = 0  # values taken

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self.position}>"  # public: the position

    def options_at(self, start: int) -> tuple[Layout, ...]:
        """The only layout of the block that begins at `start`."""
        number = start % sum(self._lengths) // self._lengths[0]
        return self._options[self._lengths[number]]

    def push_one(self, value: int) -> int | None:
        """Not used: irregular spans are returned as arrays."""
        raise AssertionError("an irregular perturber says more than a number")


def check_scale_of_spans(scale: int) -> int:
    """The noise scale; refused if the noise might not fit 64 bits."""
    if scale > _MOST_SCALE:
        raise SettingError(
            "resolution",
            f"too fine: noise of scale {roughly(scale)} steps could overflow 64-bit numbers; "
            "choose a coarser resolution, a smaller bound or a larger epsilon",
        )
    return scale
