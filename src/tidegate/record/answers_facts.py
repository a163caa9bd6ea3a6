"""`AnswersFacts`: facts derived from many answers: caps, errors, columns, text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from tidegate.lattice import FloatArray, IntArray
from tidegate.record import answer_text
from tidegate.tables.tables_from_numpy import Tabular

if TYPE_CHECKING:
    from tidegate.record.range_queries_and_answers import Answers

ERRORS = ("noise_error", "prediction_error", "truncation_error")


class AnswersFacts(Tabular):
    """Facts derived from the fields of `Answers`."""

    start: IntArray
    estimate: FloatArray
    noise_error: FloatArray
    prediction_error: FloatArray
    truncation_error: FloatArray
    threshold: float
    caps: FloatArray | None
    unseen: FloatArray | None

    @property
    def _all(self) -> Answers:
        return cast("Answers", self)

    def __len__(self) -> int:
        return self.start.size

    @property
    def highest(self) -> float:
        """The highest cap over all ranges."""
        return (
            self.threshold if self.caps is None or not len(self) else float(self.caps[:, 1].max())
        )

    @property
    def floor(self) -> float:
        """The highest lower cap over all ranges; 0 unless `lower` is below it."""
        return 0.0 if self.caps is None or not len(self) else float(self.caps[:, 3].max())

    @property
    def lowest_floor(self) -> float:
        """The lowest lower cap over all ranges."""
        return 0.0 if self.caps is None or not len(self) else float(self.caps[:, 4].min())

    @property
    def blind(self) -> NDArray[np.bool_]:
        """Whether too few values chose the threshold, for each range: see `Answer.blind`."""
        if self.unseen is None:
            return np.zeros(len(self), dtype=np.bool_)
        found: NDArray[np.bool_] = self.unseen > answer_text.MUCH * np.abs(self.estimate)
        return found

    @property
    def standard_error(self) -> FloatArray:
        """√(noise_error² + prediction_error² + truncation_error²)."""
        return np.hypot(np.hypot(self.noise_error, self.prediction_error), self.truncation_error)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The answers as columns, one row for each range."""
        names = ("start", "end", "estimate", "low", "high", "standard_error")
        table = {name: getattr(self, name) for name in (*names, *ERRORS)}
        constant, caps = np.full(len(self), self.threshold), self.caps
        table["threshold"] = constant if caps is None else caps[:, 0].copy()
        table["highest"] = constant.copy() if caps is None else caps[:, 1].copy()
        if caps is not None and self.lowest_floor:
            table["floor"] = caps[:, 3].copy()
        return table

    def __repr__(self) -> str:
        return answer_text.answers_as_text(self._all)

    def _repr_html_(self) -> str:
        return answer_text.answers_as_html(self._all)

    @property
    def beyond_bound(self) -> str:
        """How values beyond the public bound count, where the cap reached it, as text."""
        return answer_text.beyond_bound(self._all)

    @property
    def warnings(self) -> dict[str, int]:
        """The warnings of these answers (`Answer.warning`), with how many answers have each."""
        return answer_text.warnings(self._all)
