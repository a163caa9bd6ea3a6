"""Stage 2: noisy sums of blocks. `forest_geometry` holds the trees, `consistency` the algebra."""

from typing import TYPE_CHECKING

from tidegate._names_on_demand import names_on_demand

if TYPE_CHECKING:
    from tidegate.perturb.adaptive.adaptive_trees import AdaptiveTrees
    from tidegate.perturb.hierarchy_and_flat import Flat, Hierarchy

__all__ = ["AdaptiveTrees", "Flat", "Hierarchy"]

_HOMES = {
    "AdaptiveTrees": "adaptive.adaptive_trees",
    "Flat": "hierarchy_and_flat",
    "Hierarchy": "hierarchy_and_flat",
}


def __dir__() -> list[str]:
    """The public names only, not modules that happen to be imported."""
    return list(__all__)


if not TYPE_CHECKING:
    __getattr__ = names_on_demand(__name__, __all__, _HOMES)
