"""`python -m tidegate`: the command line."""

from tidegate.cli.app import app

if __name__ == "__main__":
    app(prog_name="tidegate")
