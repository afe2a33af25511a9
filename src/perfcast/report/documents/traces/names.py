"""Names of kernels, as short as they still tell something."""

from __future__ import annotations

import re

#: Parts of kernels' names that tell nothing.
_NOISE = re.compile(r"^void |at::native::|\(anonymous namespace\)::|c10::|at::cuda::|at_cuda_detail::")


def short_name(name: str) -> str:
    """A kernel's name without its parameters and the namespaces that all share."""
    shortened = _NOISE.sub("", name)
    depth = 0
    for place, letter in enumerate(shortened):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0 and place:
            return shortened[:place].strip()
    return shortened
