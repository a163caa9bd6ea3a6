"""JavaScript by the TypeScript compiler: the pages of the service, and clients/js with its users.

All of it is one test, since loading the compiler takes longer than checking.
"""

import json
from pathlib import Path
from typing import Any

import tidegate.service
from tests.depth import at_the_gate
from tests.typescript import compiler, needs_npm, run

CLIENT = Path(__file__).parent.parent / "clients" / "js"
PAGES = Path(tidegate.service.__file__).parent / "pages"
STRICT = {"strict": True, "noEmit": True, "target": "ES2022"}


@needs_npm
@at_the_gate  # as `make lint` for Python: by hand, tests run what it reads
def test_types_hold_and_the_declarations_are_current(tmp_path: Path) -> None:
    """Sources are checked strictly by their comments; declarations are made from these."""
    (tmp_path / "node_modules" / "@tidegate").mkdir(parents=True)
    (tmp_path / "node_modules" / "@tidegate" / "client").symlink_to(CLIENT)  # as if installed
    (tmp_path / "use.mts").write_text(_USE, encoding="utf-8")
    (tmp_path / "bare.mts").write_text(_BARE, encoding="utf-8")
    scripts = sorted(map(str, PAGES.glob("*.js")))
    assert len(scripts) >= 3
    made, node = tmp_path / "types", [str(compiler() / "@types")]
    lib = ["ES2022", "DOM", "DOM.Iterable", "DOM.AsyncIterable"]
    shown = {"lib": lib, "allowJs": True, "checkJs": True, "skipLibCheck": True, "types": []}
    projects: dict[str, dict[str, Any]] = {
        "client": {
            "extends": str(CLIENT / "tsconfig.json"),
            "compilerOptions": {"outDir": str(made), "typeRoots": node},
        },
        "use": {
            "compilerOptions": {
                **STRICT, "module": "NodeNext", "skipLibCheck": True, "typeRoots": node,
            },
            "files": ["use.mts"],
        },
        # They need neither the declarations of browsers nor those of Node.
        "bare": {
            "compilerOptions": {**STRICT, "module": "NodeNext", "lib": ["ES2022"], "types": []},
            "files": ["bare.mts"],
        },
        "pages": {
            "compilerOptions": {
                **STRICT, **shown, "module": "ES2022", "moduleResolution": "bundler",
            },
            "files": scripts,
        },
    }  # fmt: skip
    configs = []
    for name, project in projects.items():
        configs.append(tmp_path / f"{name}.json")
        configs[-1].write_text(json.dumps(project), encoding="utf-8")
    check = Path(__file__).parent / "check_types.cjs"
    run("node", check, compiler() / "typescript", *configs, folder=tmp_path)
    assert _texts(made) == _texts(CLIENT / "types"), "see clients/js/CONTRIBUTING.md"
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
