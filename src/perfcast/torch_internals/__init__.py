"""What perfcast uses of PyTorch that PyTorch does not promise to keep.

Public functions neither show which operator's gradient runs, nor build a model without memory, nor make one
process a rank of a thousand; so names that begin with an underscore are used, and some are replaced while a
program is captured. They are imported here and nowhere else: ``eager`` has those of any program,
``distributed`` those of parallel ones, whose import takes longer. All mean the same in every release of
``SEEN_WITH``, unless a comment says what differs. With a release that lacks one, importing it or replacing it
is an ``UnsupportedTorchError``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import torch

from perfcast.errors import UnsupportedTorchError

#: The first and the last release of PyTorch with which these names were seen (``make test-torch``).
SEEN_WITH = ("2.10", "2.15")


def unsupported(purpose: str, reason: str) -> UnsupportedTorchError:
    """The error that says what does not work with the installed PyTorch, and which releases it works with."""
    first, last = SEEN_WITH
    return UnsupportedTorchError(
        f"{purpose} does not work with torch {torch.__version__}: {reason} (known to work: {first} to {last})"
    )


@contextmanager
def needed_for(purpose: str) -> Iterator[None]:
    """Imports inside that fail are one clear error.

    Raises:
        UnsupportedTorchError: A name is not there.
    """
    try:
        yield
    except (ImportError, AttributeError) as error:
        raise unsupported(purpose, str(error).partition(" (")[0]) from error  # without the file's path


def replaced(owner: Any, name: str, value: Any) -> AbstractContextManager[Any]:
    """``value`` in place of an attribute of PyTorch's, for as long as the context lasts.

    Raises:
        UnsupportedTorchError: There is no such attribute.
    """
    if not hasattr(owner, name):
        raise unsupported("capturing a parallel program", f"{owner.__name__} has no '{name}'")
    return patch.object(owner, name, value)


def wrapped(owner: Any, name: str, wrap: Callable[[Any], Any]) -> AbstractContextManager[Any]:
    """What ``wrap`` makes of an attribute of PyTorch's in its place; errors are those of ``replaced``."""
    return replaced(owner, name, wrap(getattr(owner, name, None)))
