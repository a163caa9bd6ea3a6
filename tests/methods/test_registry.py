"""The files of `tidegate.methods` are the list: everything that names methods is taken from it."""

import json
import sys
from inspect import signature
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tidegate as tg
from tests.fresh_process import printed_by
from tidegate import methods, released
from tidegate.cli.app import app
from tidegate.cli.pipeline_from_options import PRESETS, build_pipeline
from tidegate.errors import SettingError
from tidegate.local import series
from tidegate.local.report_variance import MECHANISMS
from tidegate.methods._parts import parts
from tools import methods_table

ALL = methods.registered()
SERIES = methods.series_schemes()
CENTRAL = [method for method in ALL if method.model == "central"]


def test_every_file_of_the_folder_is_a_method():
    files = {path.stem for path in Path(methods.__file__).parent.glob("[!_]*.py")}
    assert set(methods.names()) == files == {method.preset.__name__ for method in ALL}


@pytest.mark.parametrize("method", ALL, ids=lambda method: method.name)
def test_what_a_method_says_of_itself(method):
    assert method.model == method.guarantee.model
    assert getattr(tg, method.preset.__name__) is method.preset
    assert method.preset.__name__ in tg.__all__, "export it in tidegate/__init__.py"
    assert method.summary
    assert "\n" not in method.summary
    assert method.when
    assert "\n" not in method.when
    assert method.reference
    assert all(method.arguments().values()), "a preset explains arguments that are not shared"
    assert method.arguments().keys() == signature(method.preset).parameters.keys()
    taken = signature(method.preset).parameters.values()
    flags = [{one.name: True} for one in taken if one.default is False]
    forms = [method.made(), *(method.made(**flag) for flag in flags if method.stages)]
    parts = [type(getattr(one, name, None)) for one in forms for name in ("perturber", "estimator")]
    assert set(method.stages) <= set(parts)


def test_choices_of_the_command_line():
    assert list(PRESETS) == [method.name for method in CENTRAL]


def test_the_command_lists_them():
    listed = json.loads(CliRunner().invoke(app, ["methods", "--json"]).stdout)
    methods_listed = [row for row in listed if row["kind"] == "method"]
    assert [row["name"] for row in methods_listed] == [one.name for one in (*ALL, *SERIES)]
    found = {
        row["name"]: (row["model"], row["protects"], row["guarantee"]) for row in methods_listed
    }
    assert found["tops"] == ("central", "event", "ε")
    assert found["pak"] == ("central", "event", "(ε, δ), float")
    assert found["fast"] == ("central", "window", "ε")
    assert found["square-root"] == ("central", "event", "ρ (zCDP)")
    assert found["topl"][0] == "local"
    assert found["Changes"] == ("local", "series", "ε")
    assert found["PopulationDivision"] == ("local", "window", "ε")
    text = CliRunner().invoke(app, ["methods"]).stdout
    assert all(f"\n{method.name} " in text for method in (*ALL, *SERIES))
    assert all(method.when in text and method.reference in text for method in (*ALL, *SERIES))


def test_the_command_lists_thresholds_reports_and_what_can_be_made_afterwards():
    listed = json.loads(CliRunner().invoke(app, ["methods", "--json"]).stdout)
    kinds = {}
    for row in listed:
        assert all(row[name] for name in ("summary", "when", "reference"))
        kinds.setdefault(row["kind"], {})[row["name"]] = row["guarantee"]
    rules = {name.partition(".")[2].partition("(")[0] for name in kinds["threshold"]}
    assert rules == set(tg.threshold.__all__)
    assert kinds["threshold"]["threshold.AboveThreshold"] == "ε"
    assert kinds["threshold"]["threshold.CauchyQuantile"] == "ε, float"
    assert kinds["threshold"]["threshold.GaussianQuantile"] == "(ε, δ), float"
    assert kinds["threshold"]['threshold.NoisyMax(selection="laplace")'] == "ε, float"
    assert kinds["threshold"]["threshold.Fixed"] == "free"
    assert set(kinds["report"]) == {f'topl(report="{name}")' for name in MECHANISMS}
    schemes = {name.split('"')[1] for name in kinds["survey"]}
    assert schemes <= {"published", "percentile"}
    for name in kinds["report"] | kinds["survey"]:
        key, value = name.removeprefix("topl(").split("=")
        tg.topl(1, 100, **{key: value.split('"')[1]})  # it can be chosen so
    assert all(hasattr(released, name.partition(".")[2]) for name in kinds["afterwards"])
    text = CliRunner().invoke(app, ["methods"]).stdout
    assert all(part.name in text and part.reference in text for part in parts())


@pytest.mark.parametrize("scheme", SERIES, ids=lambda scheme: scheme.name)
def test_what_a_scheme_for_series_says_of_itself(scheme):
    assert getattr(series, scheme.name) is scheme.preset
    assert scheme.model == scheme.guarantee.model
    for text in (scheme.summary, scheme.when, scheme.reference):
        assert text
        assert "\n" not in text
    assert all(scheme.arguments().values())
    shown = CliRunner().invoke(app, ["methods", scheme.name]).stdout
    assert scheme.when in shown
    assert "local model" in shown


def test_the_command_explains_one():
    facts = json.loads(CliRunner().invoke(app, ["methods", "fast", "--json"]).stdout)
    arguments = {item["name"]: item for item in facts["arguments"]}
    assert arguments["epsilon"]["default"] is None
    assert arguments["samples"]["meaning"].startswith("how many of them are measured")
    shown = CliRunner().invoke(app, ["methods", "fast"]).stdout
    assert "samples" in shown
    assert f"choose it when: {facts['when']}" in shown
    refused = CliRunner().invoke(app, ["methods", "slow"])
    assert (refused.exit_code, "must be one of adaptive" in refused.stderr) == (2, True)


def test_the_docs_are_current(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["methods_table.py", "--check"])
    assert methods_table.main() == 0, "run python tools/methods_table.py"


def test_arguments_of_one_method_on_the_command_line():
    given = {"preset": "fast", "epsilon": "1", "bound": "9", "set": "samples=7,movement=0.5"}
    assert build_pipeline(given) == tg.fast(1, 9, samples=7, movement=0.5)
    for wrong, words in (
        ("samples", "name=value"),
        ("levels=3", "'levels' is not an option of --preset fast"),
        ("horizon=3", "has its own option"),
    ):
        with pytest.raises(SettingError, match=words) as caught:
            build_pipeline({**given, "set": wrong})
        assert str(caught.value).startswith("set:")


def test_stored_settings_find_the_stages_of_a_method():
    """In a process that has not seen the method; and `import tidegate` does not load it."""
    settings = json.dumps(methods.find("fast").made().settings())
    program = (
        "import json, sys, tidegate\n"
        "assert 'tidegate.methods.fast' not in sys.modules\n"
        "found = tidegate.Pipeline.from_settings(json.load(sys.stdin))\n"
        "print(type(found.perturber).__name__)"
    )
    assert printed_by(program, given=settings).strip() == "AdaptiveSampling"


def test_nodes_of_adaptive_trees_are_whole_numbers():
    """Found by mutated settings: a list inside the list was no error that names the setting."""
    for wrong in ([[1, 16]], [1.0, 16], "ab", [True]):
        with pytest.raises(SettingError, match="nodes: must be one of"):
            tg.perturb.AdaptiveTrees(epsilon=1, horizon=64, nodes=wrong)
