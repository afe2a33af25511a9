"""The catalog, from Python: ``perfcast.catalog.devices()``, ``.models()`` and ``.clusters()``."""

from __future__ import annotations

from typing import Any

from perfcast.verbs.catalog.listing import clusters_data, devices_data, models_data


def devices(name: str | None = None) -> list[dict[str, Any]]:
    """Devices of the catalog as plain rows, every figure in SI units with its source, this machine the last.

    >>> [row["name"] for row in devices("h100")]
    ['h100-sxm']

    Args:
        name: Of one, as every option takes it; None: all.

    Raises:
        UnknownNameError: There is no such device; lists close names.
    """
    rows: list[dict[str, Any]] = devices_data(name)["devices"]
    return rows


def models(name: str | None = None) -> list[dict[str, Any]]:
    """Models of the catalog as plain rows, every figure with its source.

    Args:
        name: Of one; None: all.

    Raises:
        UnknownNameError: There is no such model; lists close names.
    """
    rows: list[dict[str, Any]] = models_data(name)["models"]
    return rows


def clusters(name: str | None = None) -> list[dict[str, Any]]:
    """Clusters of the catalog as plain rows, every figure in SI units with its source.

    Args:
        name: Of one, or a file of your own; None: all.

    Raises:
        UnknownNameError: There is no such cluster; lists close names.
        CatalogError: The file describes none.
    """
    rows: list[dict[str, Any]] = clusters_data(name)["clusters"]
    return rows


__all__ = ["clusters", "devices", "models"]
