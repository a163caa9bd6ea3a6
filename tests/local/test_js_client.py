"""clients/js under Node: its own tests, its types, and that it says of itself what is true."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tidegate as tg
from tests.typescript import compiler, needs_npm, run

CLIENT = Path(__file__).parent.parent.parent / "clients" / "js"

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node 20 or newer")


@needs_node
def test_the_tests_of_the_client() -> None:
    output = run("node", "--test", "--test-reporter=tap", folder=CLIENT)
    facts = dict(line[2:].split(" ", 1) for line in output.splitlines() if line.startswith("# "))
    assert int(facts["pass"]) >= 40
    assert (facts["fail"], facts["skipped"], facts["cancelled"]) == ("0", "0", "0")


@needs_npm
def test_the_types_hold_and_the_declarations_are_current(tmp_path: Path) -> None:
    """The sources are checked strictly by their comments; declarations are made from these."""
    tsc = (compiler() / ".bin" / "tsc", "--typeRoots", compiler() / "@types")
    modules = tmp_path / "node_modules"
    modules.mkdir()
    made = tmp_path / "types"
    run(*tsc, "--project", "tsconfig.json", "--skipLibCheck", "--outDir", made, folder=CLIENT)
    assert _texts(made) == _texts(CLIENT / "types"), "see clients/js/CONTRIBUTING.md"
    (modules / "@tidegate").mkdir()
    (modules / "@tidegate" / "client").symlink_to(CLIENT)  # as if it were installed
    (tmp_path / "use.mts").write_text(_USE, encoding="utf-8")
    strict = ("--strict", "--noEmit", "--module", "NodeNext", "--target", "ES2022")
    run(*tsc, *strict, "--skipLibCheck", tmp_path / "use.mts", folder=tmp_path)
    # Nor do they need the declarations of browsers or of Node.
    (tmp_path / "bare.mts").write_text(_BARE, encoding="utf-8")
    options = {"strict": True, "noEmit": True, "module": "NodeNext", "target": "ES2022"}
    bare = {"compilerOptions": {**options, "lib": ["ES2022"], "types": []}, "files": ["bare.mts"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(bare), encoding="utf-8")
    run(tsc[0], "--project", "tsconfig.json", folder=tmp_path)
    load = 'await import("@tidegate/client"); await import("@tidegate/client/file")'
    run("node", "--input-type=module", "--eval", load, folder=tmp_path)


_BARE = """
import { Client, VolatileStorage } from "@tidegate/client";

const storage = new VolatileStorage();
const client = await Client.open({ epsilon: 1, lower: -5, bound: 100n, storage });
for (const report of await client.unacknowledged()) await client.acknowledge(report.round);
export {};
"""

_USE = """
import { Client, VolatileStorage, type Pin, type Storage } from "@tidegate/client";
import { FileStorage } from "@tidegate/client/file";

const storages: Storage[] = [new FileStorage("folder"), new VolatileStorage()];
const client = await Client.open({ epsilon: "1/2", bound: 100n, storage: storages[0] });
const report = await client.answer("{}", 5, { event: "monday" });
const sent: number = report.report;
const ledger: readonly Pin[] = await client.ledger();
// @ts-expect-error a client without a storage would forget what it reported
await Client.open({ epsilon: 1, bound: 100 });
// @ts-expect-error a value is a number
await client.answer("{}", "5");
// @ts-expect-error what was reported is not changed
report.report = sent + ledger.length;
export {};
"""


def _texts(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*.d.ts")
    }


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


def test_browsers_get_no_module_of_node() -> None:
    """Only the storage in files may import one; whatever a page imports must not."""
    importing = {
        path.relative_to(CLIENT).as_posix()
        for path in (CLIENT / "src").rglob("*.js")
        if '"node:' in path.read_text(encoding="utf-8")
    }
    assert importing == {"src/storage/file.js"}
    index = (CLIENT / "src" / "index.js").read_text(encoding="utf-8")
    assert "file.js" not in index


def test_randomness_comes_from_web_crypto_alone() -> None:
    for path in (CLIENT / "src").rglob("*.js"):
        assert "Math.random" not in path.read_text(encoding="utf-8"), path
