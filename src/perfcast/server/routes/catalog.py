"""``/api/v1/catalog``: devices, models, clusters as ``perfcast catalog`` has them, with sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from perfcast.errors import UnknownNameError
from perfcast.server.problems import Problem, ProblemError, refuse
from perfcast.verbs.catalog.listing import clusters_data, devices_data, models_data

LISTS: Mapping[str, Callable[[str | None], dict[str, Any]]] = {
    "devices": devices_data,
    "models": models_data,
    "clusters": clusters_data,
}
#: Names of the catalog; no file is called so.
_NAME = re.compile(r"[\w.+ -]{1,100}")


async def show_all(request: Request) -> Response:
    """All of a kind."""
    return await _answer(request.path_params["kind"], None)


async def show_one(request: Request) -> Response:
    """One by its name."""
    name = request.path_params["name"]
    if not _NAME.fullmatch(name) or name.lower().endswith(".toml"):
        raise refuse(404, "There is nothing by that name in the catalog.")
    return await _answer(request.path_params["kind"], name)


async def _answer(kind: str, name: str | None) -> Response:
    if kind not in LISTS:
        raise refuse(404, f"The catalog lists {', '.join(LISTS)}.")
    try:
        text = await run_in_threadpool(_text, kind, name)
    except UnknownNameError as error:
        close = tuple(error.close_names)
        raise ProblemError(Problem(status=404, detail=str(error), close_names=close)) from error
    return Response(text, media_type="application/json")


@lru_cache(maxsize=64)
def _text(kind: str, name: str | None) -> str:
    from perfcast.report.answers import versioned, write_plain
    from perfcast.verbs.origin import origin_of_list

    return write_plain(versioned(LISTS[kind](name), origin_of_list(kind, name)))


ROUTES = (("GET", "/catalog/{kind}", show_all), ("GET", "/catalog/{kind}/{name}", show_one))
