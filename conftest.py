"""For tests and the examples of docstrings alike: what the operating system's randomness gives."""

pytest_plugins = ("tests.entropy",)
