"""Devices, models and clusters by name, every figure with its source."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from perfcast.errors import InputError
from perfcast.report.document import Document
from perfcast.server.desk import Desk
from perfcast.server.page.browser import Browser, Shelf
from perfcast.server.page.view import View
from perfcast.verbs.catalog.listing import clusters_shown, devices_shown, models_shown

_LISTS: Mapping[str, Callable[[str | None], Document]] = {
    "devices": devices_shown,
    "models": models_shown,
    "clusters": clusters_shown,
}


def _entry(kind: str, name: str) -> Document:
    if not re.fullmatch(r"[\w.+ -]{1,100}", name) or name.lower().endswith(".toml"):
        raise InputError("no name of the catalog")
    return _LISTS[kind](name)


_SHELF = Shelf(
    name="catalog",
    choice="Of what",
    options={"devices": "Devices", "models": "Models", "clusters": "Clusters"},
    document=lambda kind: _LISTS[kind](None),
    entry=_entry,
    hint="such as hopper, 80 GB, llama",
    links="/api/v1/catalog/{kind}",
)


def _build(query: str, desk: Desk) -> None:
    Browser(_SHELF, query)


CATALOG = View(
    name="catalog",
    title="Catalog",
    icon="inventory_2",
    lead="Devices, models and clusters that can be asked about, every figure with its source.",
    build=_build,
)
