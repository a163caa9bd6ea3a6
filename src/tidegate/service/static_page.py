"""The live page: static files of ours, and the chart library from its own package."""

from __future__ import annotations

from importlib.resources import files

from fastapi import FastAPI
from fastapi.responses import Response
from starlette.exceptions import HTTPException

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def install(app: FastAPI) -> None:
    """Serve the page at `/`."""
    pages = files("tidegate.service") / "pages"
    known = {item.name: item.read_bytes() for item in pages.iterdir() if item.is_file()}

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return _served("index.html", known)

    @app.get("/pages/plotly.js", include_in_schema=False)
    async def charts() -> Response:
        script = (files("plotly") / "package_data" / "plotly.min.js").read_bytes()
        return Response(script, media_type=_TYPES["js"], headers={"Cache-Control": "max-age=86400"})

    @app.get("/pages/{name}", include_in_schema=False)
    async def part(name: str) -> Response:
        return _served(name, known)


def _served(name: str, known: dict[str, bytes]) -> Response:
    kind = _TYPES.get(name.rpartition(".")[2])
    if name not in known or kind is None:
        raise HTTPException(404, "there is no such page")
    return Response(known[name], media_type=kind)
