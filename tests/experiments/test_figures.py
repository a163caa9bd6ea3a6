"""Figures are declared, complete, and refused if they could not be run or checked."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

import experiments
from experiments.errors import ExperimentError
from experiments.figures import FOLDER, chosen, figures, load
from experiments.methods import Budgets, release
from experiments.registry import dataset
from experiments.twins import twin

# The paper's figures and its table.
PAPER = {
    "datasets", "eme", "vis", "query_mse", "smooth", "hie", "diff_p", "thres", "ldp_threshold",
    "vis_ldp", "more",
}  # fmt: skip
HERE = Path(experiments.__file__).parent


def test_every_figure_of_the_paper_is_declared_with_claims_about_it() -> None:
    assert set(figures()) >= PAPER
    for figure in figures().values():
        assert figure.claims, figure.name
        assert figure.label or figure.name not in PAPER


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.toml")))
def test_every_method_can_be_built_and_run(name: str) -> None:
    """On a short piece, with a short hold-out: every declaration means something."""
    figure = figures()[name]
    values = twin(dataset("pos"))[:6000]
    for setting in figure.settings:
        protocol = replace(setting.protocol, holdout=2000)
        for method in figure.methods:
            if method.spec.get("truth") or "curve" in method.spec or figure.kind == "table":
                continue
            budgets = Budgets.of(protocol, (method.epsilons or setting.epsilons)[-1])
            outcome = release(method.spec, values, 1657, protocol, budgets, seed=1)
            assert outcome.released.size == outcome.truth.size
            assert outcome.truth.size == (4000 if protocol.stream == "next" else 2000)


def test_repeating_records_is_declared_or_not_done() -> None:
    for figure in figures().values():
        text = (FOLDER / f"{figure.name}.toml").read_text(encoding="utf-8")
        mirrored = any(setting.protocol.pad == "mirror" for setting in figure.settings)
        assert mirrored == ('pad = "mirror"' in text)


GOOD = """
title = "t"
kind = "curves"
order = 1
about = "a"
datasets = ["pos"]
epsilons = [0.1]

[[method]]
name = "ToPS"
preset = "tops"

[[claim]]
says = "s"
kind = "value"
of = "ToPS"
high = 1
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "curves"', 'kind = "pie"', "kind must be one of curves"),
        ('title = "t"', "", "the key 'title' is missing"),
        ('about = "a"', 'about = "a"\ncolour = 1', "unknown key 'colour'"),
        ('datasets = ["pos"]', 'datasets = ["posh"]', "there is no dataset 'posh'"),
        ('kind = "value"', 'kind = "hunch"', "claim 1: kind must be one of"),
        ('of = "ToPS"', 'of = "TopS"', "claim 1: the figure has no method 'TopS'"),
        ("high = 1", "height = 1", "claim 1: unknown key 'height'"),
        ('says = "s"\n', "", "claim 1: says nothing"),
        ('name = "ToPS"\n', "", "a method has no name"),
        ("[[claim]]", '[[setting]]\nname = "x"\nhold = 1\n[[claim]]', "unknown key 'hold'"),
        ("order = 1", "order = ", "Invalid value"),
    ],
)
def test_a_faulty_declaration_names_its_fault(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "faulty.toml"
    path.write_text(GOOD)
    assert load(path).name == "faulty"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ExperimentError, match=message) as caught:
        load(path)
    assert "faulty.toml" in str(caught.value)


def test_an_unknown_figure_lists_the_known_ones() -> None:
    with pytest.raises(ExperimentError, match="there is no figure 'pie': choose from datasets"):
        chosen(["pie"])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"preset": "topless"}, "no preset 'topless'"),
        ({"threshold": {"kind": "Guess"}}, "has no 'Guess': choose from"),
    ],
)
def test_an_unknown_method_is_named(spec: dict[str, object], message: str) -> None:
    stages = {"perturber": {"kind": "Hierarchy"}, "estimator": {"kind": "Recent"}}
    protocol = figures()["hie"].settings[0].protocol
    values = twin(dataset("pos"))[:70_000]
    with pytest.raises(ExperimentError, match=message):
        release({**stages, **spec}, values, 1657, protocol, Budgets(0.1, 0.1), seed=1)


def test_only_the_public_interface_of_tidegate_is_used() -> None:
    for path in HERE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
                assert not any(name.startswith("tidegate.") for name in names), path
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").partition(".")[0] != "tidegate", path
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert not (node.value.id == "tg" and node.attr.startswith("_")) or (
                    node.attr in ("__version__", "__file__", "__all__")
                ), path
