"""Defaults of estimators: no models, nothing added for truncation."""

from __future__ import annotations

from tidegate.stages import Perturber, Recorded

RESIDUALS = 16  # leaves over which prediction errors are averaged


class EstimatorDefaults:
    """Defaults: nothing is added for truncation, the open block suffices to continue, no models."""

    @property
    def allowance(self) -> float:
        """Add nothing for truncation."""
        return 0.0

    def leaves_needed(self, recorded: Recorded) -> int:
        """The leaves of the open block."""
        return recorded.leaves.closed - recorded.blocks[-1].first

    def level_leaves(self, perturber: Perturber, threshold: int) -> int:
        """The level is what is published for a value."""
        return 0

    def check_model_weights(self, model_weights: int) -> None:
        """Refuse any weights: there are no models."""
        if model_weights:
            raise ValueError("this estimator has no models to choose from")
