"""Every guide shows a picture, in both colour schemes, that a tool has drawn."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
TOOLS = "".join(path.read_text() for path in (ROOT / "tools").glob("docs_*.py"))


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_a_guide_has_a_picture_in_both_colour_schemes(guide: Path) -> None:
    found = re.findall(r"!\[(.+)\]\(\.\./images/(.+)-(\w+)\.svg#only-(\w+)\)", guide.read_text())
    assert found
    for alternative, name, theme, only in found:
        assert theme == only
        assert len(alternative) > 20  # it says what is to be seen
        assert (ROOT / "docs" / "images" / f"{name}-{theme}.svg").is_file()
        assert f'"{name}"' in TOOLS
    assert {theme for _, _, theme, _ in found} == {"light", "dark"}
