"""Fails if a test was skipped, or if none ran: `check_no_skips.py junit.xml`.

On the machine that has everything (the data, the tools), a skip is a hole in the proof.
"""

import sys
from pathlib import Path
from xml.etree import ElementTree


def main(report: Path) -> int:
    cases = list(ElementTree.parse(report).iter("testcase"))
    if not cases:
        print(f"no test ran, says {report}")
        return 1
    skips = [
        (case, skip)
        for case in cases
        for skip in case.iter("skipped")
        if skip.get("type") != "pytest.xfail"  # it ran, and failed as announced
    ]
    for case, skip in skips:
        name = " ".join(filter(None, (case.get("classname"), case.get("name"))))
        print(f"skipped: {name}: {skip.get('message')}")
    print(f"{len(cases)} tests, {len(skips)} skipped")
    return 1 if skips else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
