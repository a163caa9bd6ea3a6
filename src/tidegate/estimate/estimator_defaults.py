"""Defaults of estimators: no models, nothing added for truncation."""

from __future__ import annotations

from tidegate.stages import Perturber, Recorded

RESIDUALS = 16  # leaves over which prediction errors are averaged


class EstimatorDefaults:
    """Defaults: no allowance for truncation, only the open block to continue, no models."""

    @property
    def allowance(self) -> float:
        """Add nothing for truncation."""
        return 0.0

    def leaves_needed(self, recorded: Recorded) -> int:
        """The number of leaves in the open block."""
        return recorded.leaves.closed - recorded.blocks[-1].first

    def level_leaves(self, perturber: Perturber, threshold: int) -> int:
        """0: the level is the published value."""
        return 0

    def check_model_weights(self, model_weights: int) -> None:
        """Refuse any weights: there are no models."""
        if model_weights:
            raise ValueError("this estimator has no models to choose from")
