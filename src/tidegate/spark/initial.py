"""What a shard begins with: keys of another checkpoint, and ε that keys have spent before."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tidegate.exact_numbers import exact
from tidegate.spark.shard import Shard

SHARD, BODY, NAME, EPSILON = "shard", "body", "key", "epsilon"  # columns of the initial state
SCHEMA = f"{SHARD} int, {BODY} binary, {NAME} string, {EPSILON} string"


def with_spent(shard: Shard, names: Sequence[str], amounts: Sequence[str]) -> None:
    """Remember what keys of a shard have spent in earlier epochs."""
    for name, amount in zip(names, amounts, strict=True):
        before = shard.spent.get(name, Fraction(0))
        shard.spent[name] = before + exact("epsilon", amount)
