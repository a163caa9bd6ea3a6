"""The output of `tidegate plan`: tables and sentences, or JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from tidegate.plan import Choice, Expectation
from tidegate.plan.best_tree_and_needed_epsilon import AccuracyTarget
from tidegate.run.pipeline import Pipeline
from tidegate.tables.plain_text import plain_number, plain_percent, table


@dataclass(frozen=True)
class PlanRow:
    """An expected value and the half width of its interval."""

    expectation: Expectation
    half_width: float


def _plan_skips(best: Choice) -> int:
    return round(math.log(best.hierarchy.block, best.hierarchy.fanout))


@dataclass(frozen=True)
class PlanReport:
    """The predicted errors, as text for people and as JSON for programs."""

    pipeline: Pipeline
    rows: list[PlanRow]
    best: Choice | None  # adaptive releases choose their trees themselves
    others: dict[str, list[PlanRow]]  # of adaptive releases: what other assumptions lead to
    roughness: str
    target: AccuracyTarget | None
    confidence: float
    mean: float | None
    worst: bool  # the bound was assumed as threshold

    def _present_error(self) -> float:
        """The error of the tree that would be used, over ranges of all lengths, in thresholds."""
        squares = [row.expectation.standard_error**2 for row in self.rows]
        return math.sqrt(sum(squares) / len(squares)) / self.rows[0].expectation.width

    @property
    def _threshold(self) -> float:
        return self.rows[0].expectation.threshold

    def as_text(self) -> str:
        """The report as tables and sentences."""
        parts = ["noise", "prediction", "truncation"]
        head = ["length", *parts, "std. error", f"± ({plain_percent(self.confidence)})"]
        cells = [
            [
                f"{row.expectation.length:,}",
                plain_number(row.expectation.noise_error),
                plain_number(row.expectation.prediction_error),
                _planned_truncation(row.expectation),
                plain_number(row.expectation.standard_error),
                plain_number(row.half_width),
            ]
            for row in self.rows
        ]
        if self.mean is not None:
            head.append("± of the sum")
            for line, row in zip(cells, self.rows, strict=True):
                share = row.half_width / (row.expectation.length * self.mean)
                line.append(f"{share:.2%}")
        assumed, floor = f"Threshold {self._threshold:g} assumed", self.rows[0].expectation.floor
        if floor:
            assumed = f"Values from {floor:g} to {self._threshold:g} assumed"
        if self.worst:
            assumed += ", the bound: the worst case. --threshold says what is likely"
        lines = []
        if self.target is not None:
            lines += [
                f"ε = {float(self.target.epsilon):g} gives ± {self.target.half_width:g} or less "
                f"({plain_percent(self.confidence)}) on ranges of {self.target.length:,} values "
                f"out of {self.pipeline.perturber.horizon:,} (--horizon), once all are released.",
            ]
            if self.target.better:
                lines.append(
                    f"With --skipped {self.target.skipped}, ε = {float(self.target.least):g} does."
                )
            lines.append("")
        lines += [table(head, cells), "", f"{self.pipeline.guarantee}. {assumed}."]
        return "\n".join([*lines, *(self._other_roughness() if self.others else self._best_tree())])

    def _best_tree(self) -> list[str]:
        present, best, tree = self._present_error(), self.best, self.pipeline.perturber
        if best is not None and best.error < 0.99 * present:
            return [
                f"Best tree for these lengths: --fanout {best.hierarchy.fanout} --skipped "
                f"{_plan_skips(best)} (blocks of {best.hierarchy.block:,}), error {best.error:.4g} "
                f"thresholds instead of {present:.4g} with blocks of {tree.block:,}."
            ]
        return [
            f"Blocks of {tree.block:,}, chosen by epsilon, are about the best for these "
            f"lengths: error {present:.4g} thresholds."
        ]

    def _other_roughness(self) -> list[str]:
        head = ["length", *(f"± if {name}" for name in self.others)]
        others = list(self.others.values())
        cells = [
            [f"{row.expectation.length:,}", *(plain_number(rows[at].half_width) for rows in others)]
            for at, row in enumerate(self.rows)
        ]
        return [
            f"Assumed: the stream's level drifts by {self.roughness} thresholds over the horizon "
            f"of {self.pipeline.perturber.horizon:,} values, all of which was released.",
            "Trees are chosen by how the stream behaves. If it drifts by this many thresholds:",
            "",
            table(head, cells),
        ]

    def as_json(self) -> str:
        """The report as data for JSON."""
        promise = self.pipeline.guarantee
        facts: dict[str, Any] = {
            "guarantee": str(promise),
            "epsilon": str(promise.epsilon),
            "threshold": self._threshold,
            "floor": self.rows[0].expectation.floor,
            "block": self.pipeline.perturber.block,
            "confidence": self.confidence,
            "expected": [
                {
                    "length": row.expectation.length,
                    "noise_error": row.expectation.noise_error,
                    "prediction_error": row.expectation.prediction_error,
                    "truncation_error": row.expectation.truncation_error,
                    "standard_error": row.expectation.standard_error,
                    "half_width": row.half_width,
                    **(
                        {}
                        if self.mean is None
                        else {"relative": row.half_width / (row.expectation.length * self.mean)}
                    ),
                }
                for row in self.rows
            ],
            "error_in_thresholds": self._present_error(),
        }
        if self.best is not None:
            facts["best"] = {
                "fanout": self.best.hierarchy.fanout,
                "skipped": _plan_skips(self.best),
                "block": self.best.hierarchy.block,
                "error_in_thresholds": self.best.error,
            }
        if self.others:
            facts["assumed"] = {"roughness": self.roughness}
            facts["half_width_by_roughness"] = {
                name: [row.half_width for row in rows] for name, rows in self.others.items()
            }
        if self.target is not None:
            facts["target"] = {
                "length": self.target.length,
                "half_width": self.target.half_width,
                "epsilon": str(self.target.epsilon),
            }
            if self.target.better:
                better = {"skipped": self.target.skipped, "epsilon": str(self.target.least)}
                facts["target"]["with_other_tree"] = better
        return json.dumps(facts, indent=1, ensure_ascii=False)


def _planned_truncation(expectation: Expectation) -> str:
    if expectation.excess is None:
        return "not known"
    return plain_number(expectation.truncation_error)
