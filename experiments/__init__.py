"""Every figure of the paper by one command: `python -m experiments run`, then `report`.

Not part of the wheel, and built on the public API of tidegate alone. The way of a result:

    figures/*.toml → cells (dataset × method × ε) → run → results/cells/*.json
                   → results.csv, pictures, claims → report.html, docs/reproduction.md
"""
