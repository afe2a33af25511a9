"""Files to begin with: a device and a cluster of one's own, commented, with figures as an example."""

from __future__ import annotations

import re
from importlib import resources
from typing import Literal

from perfcast.errors import InputError

Kind = Literal["device", "cluster"]
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")


def template_of(kind: Kind, name: str) -> str:
    """The commented file of a device or cluster, under a name.

    Raises:
        InputError: A name that the catalog would spell otherwise.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"'{name}': a name is of small letters, digits, dashes and points, such as my-{kind}"
        )
    text = resources.files("perfcast.catalogs.templates").joinpath(f"{kind}.toml").read_text(encoding="utf-8")
    key = name if "." not in name else f'"{name}"'
    return text.replace(f"my-{kind}", key)
