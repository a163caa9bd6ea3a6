"""Two conveniences for mkdocs: `folder/*.md` in the navigation, and CHANGELOG.md as a page."""

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_CHANGELOG = "changelog.md"


def on_config(config: MkDocsConfig) -> None:
    config.nav = _expanded(config.nav, Path(config.docs_dir))


def on_files(files: Files, *, config: MkDocsConfig) -> None:
    changelog = Path(config.config_file_path).with_name("CHANGELOG.md")
    if changelog.exists() and files.get_file_from_path(_CHANGELOG) is None:
        files.append(File.generated(config, _CHANGELOG, abs_src_path=str(changelog)))


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """CHANGELOG.md lies beside the docs, its page among them: links lead to the same place."""
    return markdown.replace("](docs/", "](") if page.file.src_uri == _CHANGELOG else markdown


def _expanded(item: Any, docs: Path) -> Any:
    if isinstance(item, dict):
        return {title: _expanded(below, docs) for title, below in item.items()}
    if isinstance(item, list):
        return [page for entry in item for page in _pages(entry, docs)]
    return item


def _pages(entry: Any, docs: Path) -> list[Any]:
    """The pages a pattern stands for, the folder's index first; anything else as it is."""
    if not (isinstance(entry, str) and "*" in entry):
        return [_expanded(entry, docs)]
    found = sorted(docs.glob(entry), key=lambda page: (page.stem != "index", page.name))
    return [page.relative_to(docs).as_posix() for page in found]
