"""clients/js under Node: its own tests, and that it says of itself what is true."""

import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

import tidegate as tg
from tests.depth import at_the_gate
from tests.typescript import needs_npm, run

CLIENT = Path(__file__).parent.parent.parent / "clients" / "js"

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node 20 or newer")


@needs_node
def test_the_tests_of_the_client() -> None:
    output = run("node", "--test", "--test-reporter=tap", folder=CLIENT)
    facts = dict(line[2:].split(" ", 1) for line in output.splitlines() if line.startswith("# "))
    assert int(facts["pass"]) >= 40
    assert (facts["fail"], facts["skipped"], facts["cancelled"]) == ("0", "0", "0")


def test_the_package_says_what_it_is() -> None:
    package = json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))
    assert package["version"] == tg.__version__
    assert package["type"] == "module"
    assert not {"dependencies", "devDependencies", "peerDependencies"} & set(package)
    for target in package["exports"].values():
        assert all((CLIENT / path).is_file() for path in target.values())
    assert not list(CLIENT.glob("*lock*")), "a lock file would name hosts"
    licence = (CLIENT.parent.parent / "LICENSE").read_text(encoding="utf-8")
    assert (CLIENT / "LICENSE").read_text(encoding="utf-8") == licence
    assert package["files"] == ["src", "types"]  # README and LICENSE go by themselves; no vectors
    assert package["keywords"]
    readme = (CLIENT / "README.md").read_text(encoding="utf-8")
    for elsewhere in ("docs/", "tests/", "tools/", "vectors.json", "benchmark.mjs"):
        assert elsewhere not in readme, "it must stand alone: this is not in the package"
    for name in re.findall(r"`client\.(\w+)\(", readme):
        assert f"async {name}(" in (CLIENT / "src" / "client.js").read_text(encoding="utf-8")


@needs_npm
@at_the_gate  # what the package says of itself is compared with its files above
def test_what_would_be_published() -> None:
    (packed,) = json.loads(run("npm", "pack", "--dry-run", "--json", folder=CLIENT))
    names = {one["path"] for one in packed["files"]}
    assert {"LICENSE", "README.md", "package.json", "src/delivery.js", "types/index.d.ts"} <= names
    kinds = {name.partition("/")[0] for name in names}
    assert kinds == {"LICENSE", "README.md", "package.json", "src", "types"}  # no vectors, no tests


@needs_npm
def test_nothing_is_published_without_the_address_of_its_source(tmp_path: Path) -> None:
    package = json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))
    script = package["scripts"]["prepublishOnly"].split()
    named = {**package, "repository": {"type": "git", "url": "git+https://example.org/tidegate"}}
    for content, code in (({**package, "repository": None}, 1), (named, 0)):
        (tmp_path / "package.json").write_text(json.dumps(content), encoding="utf-8")
        words = [*script, str(tmp_path / "package.json")]
        done = subprocess.run(words, cwd=CLIENT, capture_output=True, check=False)
        assert done.returncode == code, done.stderr


@needs_npm
def test_a_release_says_where_its_source_is(tmp_path: Path) -> None:
    copy = tmp_path / "clone" / "clients" / "js"
    shutil.copytree(CLIENT, copy, ignore=shutil.ignore_patterns("node_modules", "*.tgz"))
    environment = {name: text for name, text in os.environ.items() if name != "TIDEGATE_REPOSITORY"}
    committed = (copy / "package.json").read_text(encoding="utf-8")

    def pack(*given: str) -> subprocess.CompletedProcess[str]:
        words = ["npm", "run", "--silent", "pack:release", "--", *given]
        return subprocess.run(
            words, cwd=copy, env=environment, capture_output=True, text=True, check=False
        )

    run("git", "init", "-q", folder=tmp_path / "clone")
    for given in ((), ("/srv/tidegate",), ("https://localhost/tidegate",)):
        refused = pack(*given)
        assert refused.returncode == 1
        assert refused.stderr.startswith("pack:release: the public address of the source")
        assert len(refused.stderr.strip().splitlines()) == 1
        assert not list(copy.glob("*.tgz"))
    origin = "https://someone:token@example.org/team/tidegate"
    run("git", "remote", "add", "origin", origin, folder=tmp_path / "clone")
    for given, host in (
        ((), "example.org"),
        (("git@example.com:team/tidegate.git",), "example.com"),
        (("ssh://git@example.net:2222/team/tidegate.git/",), "example.net"),
        (("https://example.net:8443/team/tidegate",), "example.net:8443"),
    ):
        done = pack(*given)
        assert done.returncode == 0, done.stderr
        (tarball,) = copy.glob("*.tgz")
        with tarfile.open(tarball) as packed:
            names = {name.removeprefix("package/") for name in packed.getnames()}
            content = packed.extractfile("package/package.json")
            assert content is not None
            package = json.load(content)
        tarball.unlink()
        url = f"git+https://{host}/team/tidegate.git"
        assert package["repository"] == {"type": "git", "url": url, "directory": "clients/js"}
    assert package["keywords"] == json.loads(committed)["keywords"]
    kinds = {name.partition("/")[0] for name in names}
    assert kinds == {"LICENSE", "README.md", "package.json", "src", "types"}  # no vectors, no tests
    shipped = {
        f"{kind}/{one.relative_to(copy / kind)}"
        for kind in ("src", "types")
        for one in (copy / kind).rglob("*")
        if one.is_file()
    }
    assert shipped <= names
    assert (copy / "package.json").read_text(encoding="utf-8") == committed


def test_browsers_get_no_module_of_node() -> None:
    """Only the storage in files may import one; whatever a page imports must not."""
    texts = {
        path.relative_to(CLIENT / "src").as_posix(): path.read_text(encoding="utf-8")
        for path in (CLIENT / "src").rglob("*.js")
    }
    of_node = {"storage/file.js", "storage/head.js"}
    assert {name for name, text in texts.items() if '"node:' in text} == of_node
    assert [name for name, text in texts.items() if '/head.js"' in text] == ["storage/file.js"]
    assert not [name for name, text in texts.items() if '/file.js"' in text]


def test_randomness_comes_from_web_crypto_alone() -> None:
    for path in (CLIENT / "src").rglob("*.js"):
        assert "Math.random" not in path.read_text(encoding="utf-8"), path
