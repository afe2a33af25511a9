"""What devices cost an hour, from a file of the user's.

TOML or JSON with a table ``dollars_per_device_hour``, or CSV with the columns ``name`` and
``dollars_per_device_hour``. A name is that of a cluster (with or without ``:N``) or of a device; the closest
name wins: the cluster of that size, the cluster, the device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfcast.catalogs.clusters import load_cluster_entries, whole_name
from perfcast.catalogs.devices import find_device_name
from perfcast.core.machine.cluster import Cluster
from perfcast.errors import InputError
from perfcast.files.limits import DOCUMENT_BYTES
from perfcast.files.reading import read_json, read_toml
from perfcast.files.reading_tables import csv_entries

_WHAT = "the prices"
KEY = "dollars_per_device_hour"
_SHAPES = (
    f'a TOML or JSON file has a table {KEY} such as {{"dgx-h100" = 2.5}}, a CSV file the columns name,{KEY}'
)


@dataclass(frozen=True)
class PriceList:
    """Dollars per device and hour, by the names of the file.

    Attributes:
        source: The file, for messages and reports.
    """

    source: str
    dollars_per_device_hour: Mapping[str, float]

    def of_cluster(self, cluster: Cluster, asked: str = "") -> float:
        """The price of one device of a cluster.

        Args:
            asked: What the user called it, a path or an alias.

        Raises:
            InputError: The file has no name that fits.
        """
        by_name = {_plain(name): price for name, price in self.dollars_per_device_hour.items()}
        sized = f":{cluster.num_devices}"
        stem = asked.removesuffix(sized)
        whole = whole_name(cluster.name)
        for name in (stem + sized, cluster.name + sized, stem, cluster.name, whole, cluster.device):
            if _plain(name) in by_name:
                return by_name[_plain(name)]
        raise InputError(
            f"{self.source} has no price of cluster '{cluster.name}' or its device '{cluster.device}'; "
            f"it has {', '.join(self.dollars_per_device_hour)}"
        )


def _plain(name: str) -> str:
    """A name in the catalog's spelling, as far as it is there."""
    stem, colon, count = name.rpartition(":") if name.rpartition(":")[2].isdecimal() else (name, "", "")
    for known, entry in load_cluster_entries().items():
        if stem.lower() == known or stem.lower() in (alias.lower() for alias in entry.aliases):
            return known + colon + count
    return (find_device_name(stem) or stem) + colon + count


def read_prices(path: str | Path) -> PriceList:
    """A file of prices, checked.

    Raises:
        InputError: Not readable, of another form, or a price that is not a finite number from 0; names the
            file and the entry.
    """
    rows = _read_rows(Path(path))
    if not rows:
        raise InputError(f"{path} holds no prices: {_SHAPES}")
    return PriceList(str(path), {name: _checked(path, name, value) for name, value in rows.items()})


def _read_rows(path: Path) -> dict[str, Any]:
    if path.suffix == ".csv":
        return _csv_rows(path)
    content = read_json(path, what=_WHAT) if path.suffix == ".json" else read_toml(path, what=_WHAT)
    table = content.get(KEY) if isinstance(content, dict) else None
    if not isinstance(table, dict):
        raise InputError(f"{path} has no table '{KEY}': {_SHAPES}")
    return table


def _csv_rows(path: Path) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for _, row in csv_entries(path, what=_WHAT, usual_bytes=DOCUMENT_BYTES):
        if not {"name", KEY} <= row.keys():
            raise InputError(f"{path} lacks the columns name and {KEY}: {_SHAPES}")
        if row["name"] in rows:
            raise InputError(f"{path}: '{row['name']}' has two prices")
        rows[row["name"]] = row[KEY]
    return rows


def _checked(path: str | Path, name: str, value: Any) -> float:
    try:
        price = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        price = math.nan
    if not (math.isfinite(price) and price >= 0):
        raise InputError(f"{path}: {name} = {value}: a price is a finite number of dollars, 0 or more")
    return price
