"""Any text, for hypothesis."""

from hypothesis import strategies as st


def texts(*, max_size: int | None = None) -> st.SearchStrategy[str]:
    """What `st.text` gives, which asks the codec about a million characters in a new checkout."""
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=max_size)
