"""Stage 2: noisy sums of blocks. `forest` is the geometry, `consistency` the algebra."""

from tidegate.perturb.adaptive.adaptive_trees import AdaptiveTrees
from tidegate.perturb.hierarchy_and_flat import Flat, Hierarchy

__all__ = ["AdaptiveTrees", "Flat", "Hierarchy"]
