"""`SmoothedBlocks`: the posterior of the state at which each block of a chain begins."""

from __future__ import annotations

import numpy as np

from tidegate.estimate.mixture.smoother.block_chain import BlockChain
from tidegate.estimate.mixture.smoother.cell_variances import applied_to_cells, cell_products
from tidegate.lattice import FloatArray


class SmoothedBlocks:
    """Smoothed blocks: one entry for each, in the last axis; see `cell_variances`.

    Attributes:
        begun: posterior mean of x₀.
        told: Λ.
        covariances: V.
        crossed: X.
        leaving: A, with the running sum.
        across: F·(I − G·J).
        gain, information: G and J.
        forward: F, of the level and the swing.
    """

    def __init__(self, chain: BlockChain) -> None:
        transitions = chain.blocks
        forward, self.information = (np.moveaxis(part, 0, -1) for part in transitions[:3:2])
        prior, adjoints, after = (np.moveaxis(part, 0, -1) for part in chain[1:4])
        self.begun = chain.means.T - applied_to_cells(prior[:, 1:], adjoints[:, 2])
        self.gain = smoothed_block_gain(prior, self.information)
        left = prior - cell_products(self.gain, cell_products(self.information, prior[1:]))
        self.told = after[:, :2]
        self.leaving = cell_products(left, forward.transpose(1, 0, 2))
        self.crossed = cell_products(self.leaving[:, 1:], self.told)
        self.covariances = left - cell_products(
            self.crossed, self.leaving[:, 1:].transpose(1, 0, 2)
        )
        self.forward = forward[1:]
        self.across = forward.copy()
        self.across[:, 1:] -= cell_products(cell_products(forward, self.gain), self.information)


def smoothed_block_gain(covariances: FloatArray, information: FloatArray) -> FloatArray:
    """P·(I + J·P)⁻¹ for the columns of level and swing."""
    (a, b), (c, d) = cell_products(information, covariances[1:, 1:])
    a, d = 1.0 + a, 1.0 + d
    determinant = a * d - b * c
    inverse = np.array([[d / determinant, -b / determinant], [-c / determinant, a / determinant]])
    return cell_products(covariances[:, 1:], inverse)
