"""Smoothed views as plain arrays and back, so that a file is smoothed only once.

A view has computed numbers for every cell and every block. They follow from the record and the
settings alone: whoever stores them says of which record they are (`released.smoothed_file`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from tidegate.estimate.mixture.kalman_filter.harmonics import Harmonics
from tidegate.estimate.mixture.smoother.cell_updates import CellUpdates
from tidegate.estimate.mixture.smoother.cell_variances import (
    CellMisfits,
    CellVariances,
)
from tidegate.estimate.mixture.smoother.forward_backward_passes import SolvedPasses
from tidegate.estimate.mixture.smoother.mixture_smoother import MixtureViews
from tidegate.estimate.mixture.smoother.model_and_cycle_smoothers import ModelSmoother
from tidegate.estimate.mixture.smoother.profile_cells import ProfileCells
from tidegate.estimate.mixture.smoother.smoothed_blocks import SmoothedBlocks
from tidegate.state_as_bytes import State

Kind = TypeVar("Kind")
_PASSES = ("edges", "sums", "levels", "ended", "firsts")
_CELLS = ("rows", "ends", "own", "leaving", "arriving", "entries")


def stored_views(views: MixtureViews) -> dict[str, Any] | None:
    """The views as numbers and arrays. None: they cannot be stored.

    That is so for views with a cycle, and for those that were smoothed with other streams or in
    several pieces: few, and not the ones that a long file has.
    """
    smoothers = [view for _, view in views.each]
    plain = [view for view in smoothers if isinstance(view, ModelSmoother)]
    passes = plain[0].passes if plain else None
    if (
        passes is None
        or len(plain) < len(smoothers)
        or any(view.passes is not passes for view in plain)
        or passes.firsts.size != len(plain)
    ):
        return None
    cells = passes.variances.cells
    found = {
        **{name: getattr(passes, name) for name in _PASSES},
        **{f"cells.{name}": getattr(cells, name) for name in _CELLS},
        **{f"updates.{name}": part for name, part in cells.updates._asdict().items()},
        **{f"blocks.{name}": part for name, part in vars(passes.variances.blocks).items()},
        "block_of": passes.variances.block_of,
        "profile_of": passes.variances.profile_of,
        **{f"misfits.{name}": part for name, part in vars(passes.misfits).items()},
    }
    shapes = {name: list(part.shape) for name, part in found.items()}
    flat = {name: part.reshape(-1) for name, part in found.items()}
    weights = np.array([weight for weight, _ in views.each])
    return {"shapes": shapes, "arrays": flat, "weights": weights}


def restored_views(state: State) -> MixtureViews:
    """The views from what `stored_views` returned, with the same bits."""
    shapes = state["shapes"]
    arrays = {name: part.reshape(shapes[name]) for name, part in state["arrays"].items()}
    updates = CellUpdates(**_named_view(arrays, "updates."))
    cells = ProfileCells(**_named_view(arrays, "cells."), updates=updates)
    blocks = _view_with_attributes(SmoothedBlocks, _named_view(arrays, "blocks."))
    variances = CellVariances(blocks, (), arrays["block_of"], arrays["profile_of"])
    variances.cells = cells
    misfits = _view_with_attributes(CellMisfits, _named_view(arrays, "misfits."))
    passes = SolvedPasses(
        **{name: arrays[name] for name in _PASSES}, variances=variances, misfits=misfits
    )
    each = [
        (weight, ModelSmoother.solved_before(passes, number))
        for number, weight in enumerate(state["weights"].tolist())
    ]
    none = Harmonics(())
    return MixtureViews([*each], none, np.zeros(none.count))


def _view_with_attributes(kind: type[Kind], attributes: Mapping[str, Any]) -> Kind:
    """An object from its stored attributes."""
    found = object.__new__(kind)
    vars(found).update(attributes)
    return found


def _named_view(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}
