"""One published number per value, from the totals and predictions of cells: post-processing.

Inside a cell every value is published as the prediction; the last value of the cell is published as
its total minus what was already published, so that every completed cell adds up to its total. (The
paper's Algorithm 1 forgets the division: it must read cur_node − u·(16^s − 1)/16^s.) A stream that
stops inside a cell leaves predictions only for that cell.
"""

from __future__ import annotations

import numpy as np

from tidegate.lattice import FloatArray, IntArray


def fill_equal_published_cells(
    out: FloatArray,
    prediction: float,
    filled: int,
    width: int,
    totals: IntArray,
    following: FloatArray,
) -> tuple[float, int]:
    """Fill `out` with the values of cells of equal width.

    Args:
        out: takes one number per value.
        prediction: for the values of the open cell, of which `filled` were published before.
        filled: see `prediction`.
        width: values in a cell.
        totals: of the cells that these values complete.
        following: the prediction after each of these.

    Returns:
        The same two facts about the cell that is open afterwards.
    """
    completed, head = totals.size, width - filled
    if not completed:  # no cell ended: the open one continues
        out[:] = prediction
        return prediction, filled + out.size
    if width == 1:  # every value is a cell, and the total of it
        out[:] = totals
        return prediction, 0
    predictions = np.concatenate(([prediction], following))
    corrections = totals - (width - 1) * predictions[:-1]
    out[: head - 1] = prediction
    out[head - 1] = corrections[0]
    body = out[head : head + (completed - 1) * width].reshape(-1, width)
    body[:] = predictions[1:-1, np.newaxis]
    body[:, -1] = corrections[1:]
    tail = out[head + (completed - 1) * width :]
    tail[:] = predictions[-1]
    return float(predictions[-1]), tail.size


def fill_published_cells(
    out: FloatArray,
    prediction: float,
    filled: int,
    widths: IntArray,
    totals: IntArray,
    following: FloatArray,
) -> tuple[float, int]:
    """Fill `out` with the values of cells of any width."""
    if not totals.size:
        out[:] = prediction
        return prediction, filled + out.size
    if totals.size == out.size and not filled:  # every value is a cell
        out[:] = totals
        return float(following[-1]), 0
    predictions = np.concatenate(([prediction], following))
    ends = np.cumsum(widths) - filled
    last = int(ends[-1])
    counts = np.empty(ends.size + 1, dtype=np.int64)  # of values with each prediction
    counts[0], counts[-1] = ends[0], out.size - last
    np.subtract(ends[1:], ends[:-1], out=counts[1:-1])
    out[:] = np.repeat(predictions, counts)
    out[ends - 1] = totals - (widths - 1) * predictions[:-1]
    return float(predictions[-1]), out.size - last
