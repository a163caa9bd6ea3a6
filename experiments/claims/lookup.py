"""Numbers of one figure, by stream, setting, method and ε: what claims are checked against."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from experiments.results import Row


@dataclass(frozen=True)
class Found:
    """A stream under a setting, for which there are results."""

    dataset: str
    setting: str
    label: str

    def moved(self, setting: str) -> Found:
        return replace(self, setting=setting)


class Lookup:
    """The rows of one figure, without places along a course or a score, which are drawn only."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)
        self._found: dict[Found, None] = {}
        self._numbers: dict[tuple[str, str, str, float, str], Row] = {}
        for row in self.rows:
            self._found[Found(row.dataset, row.setting, row.label)] = None
            if not row.at:
                self._numbers[row.dataset, row.setting, row.method, row.epsilon, row.metric] = row

    def found(self, claim: dict[str, Any], setting_key: str = "settings") -> list[Found]:
        """The streams and settings that a claim speaks of."""
        settings = claim.get(setting_key, claim.get("settings"))
        settings = [settings] if isinstance(settings, str) else settings
        return [
            found
            for found in self._found
            if ("datasets" not in claim or found.dataset in claim["datasets"])
            and (settings is None or found.setting in settings)
        ]

    def epsilons(self, method: str, claim: dict[str, Any], found: Found) -> list[float]:
        """Those that were run, within the claim's `epsilons` = [lowest, highest] if it has any."""
        low, high = claim.get("epsilons", (0.0, float("inf")))
        metric = claim.get("metric", "mse")
        return sorted(
            epsilon
            for dataset, setting, name, epsilon, of in self._numbers
            if (dataset, setting, name, of) == (found.dataset, found.setting, method, metric)
            and low <= epsilon <= high
        )

    def value(
        self, method: str, claim: dict[str, Any], found: Found, epsilon: float | None
    ) -> float | None:
        """The claim's statistic (the median, unless it says otherwise) of its metric."""
        metric = claim.get("metric", "mse")
        if epsilon is None:
            known = self.epsilons(method, {"metric": metric}, found)
            epsilon = known[0] if known else 0.0
        row = self._numbers.get((found.dataset, found.setting, method, epsilon, metric))
        return None if row is None else float(getattr(row, claim.get("statistic", "median")))
