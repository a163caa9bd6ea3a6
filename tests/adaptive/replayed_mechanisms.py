"""What the mechanisms of a refined release give is recorded, and given again to other values."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.perturb.adaptive.refinement_trees import RefinementTreesRun
from tidegate.run import refinement_run
from tidegate.threshold import TailQuantile


class ReplayedMechanisms:
    """Records what noisy sums and choices give; from `replay` on, gives it again in this order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._given: list[Any] = []
        self.left: list[Any] = []  # to be given again
        for owner, name in (
            (RefinementTreesRun, "push"),
            (RefinementTreesRun, "rest"),
            (refinement_run, "noisy_sum"),
            (TailQuantile, "choose_from"),
        ):
            monkeypatch.setattr(owner, name, self._watched(getattr(owner, name)))

    def _watched(self, original: Any) -> Any:
        def watched(*arguments: Any, **options: Any) -> Any:
            result = original(*arguments, **options)
            if self.left:
                return self.left.pop(0)
            self._given.append(result)
            return result

        return watched

    def replay(self) -> None:
        self.left = [*self._given]
