"""Stage 2: noisy sums of blocks. `forest` is the geometry, `consistency` the algebra."""

from tidegate.perturb.adaptive.adaptive_trees import AdaptiveTrees
from tidegate.perturb.flat import Flat
from tidegate.perturb.hierarchy import Hierarchy

__all__ = ["AdaptiveTrees", "Flat", "Hierarchy"]
