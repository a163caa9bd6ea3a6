"""Claims and numbers in words: the band that was expected, and what was measured."""

from __future__ import annotations

from typing import Any

from experiments.registry import dataset


def expected(claim: dict[str, Any]) -> str:
    kind, metric = claim["kind"], claim.get("metric", "mse")
    if kind == "best":
        return f"{claim['of']} ≤ {claim.get('within', 1.0):g} × the best of the others ({metric})"
    if kind == "target":
        return f"{claim['of']} within a factor of {claim.get('within', 2.0):g} of the authors' code"
    if kind == "table":
        return "n, four quantiles and the mean as printed"
    if kind == "closer":
        row, than = dataset(claim["row"]).title, dataset(claim["than"]).title
        return f"{dataset(claim['dataset']).title} nearer to the row of {row} than {than}"
    band_text = band(claim)
    if kind == "ratio":
        scaled = f" × {claim['factor']:g}" if "factor" in claim else ""
        top = claim["of"] + (f" at ε={claim['of_epsilon']:g}" if "of_epsilon" in claim else "")
        top += f" ({claim['of_setting']})" if "of_setting" in claim else ""
        bottom = claim["over"] + (
            f" at ε={claim['over_epsilon']:g}" if "over_epsilon" in claim else ""
        )
        bottom += f" ({claim['over_setting']})" if "over_setting" in claim else ""
        return f"{metric} of {top} over {bottom}{scaled} {band_text}"
    if kind == "across":
        return (
            f"{metric} of {', '.join(listed(claim['of']))} at the first ε over the last {band_text}"
        )
    return f"{metric} of {claim['of']} {band_text}"


def band(claim: dict[str, Any]) -> str:
    low, high = claim.get("low"), claim.get("high")
    if low is not None and high is not None:
        return f"in {low:g}–{high:g}"
    return f"≥ {low:g}" if low is not None else f"≤ {high:g}"


def listed(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


def short(value: float) -> str:
    """Two or three digits for people."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.3g}" if abs(value) < 1e3 else f"{value:,.0f}"
    return f"{value:.1e}"
