"""What an answer came from: the question, and everything beside it that decides the figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class InputData:
    """A file that was read.

    Attributes:
        path: As the question names it; of a folder, with the file's name behind it.
        num_bytes: Bytes.
        sha256: Of its content.
    """

    path: str
    num_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginData:
    """What decides the figures of an answer, beside the program's version.

    Attributes:
        verb: That answered, such as 'mesh cost'.
        question: What was asked, by option; null where it holds what has no name, or is measured.
        command: The command line that asks the same; empty where none does.
        catalog_sha256: Of the devices, clusters, models and frameworks that are shipped.
        weights_sha256: Of the trained weights and fitted constants that are shipped.
        measurements_sha256: Of what was measured or trained on this machine and is taken into account; null:
            nothing was.
        libraries: Versions of Python and of the packages whose code decides what is captured or computed.
        inputs: Files that the question names. What a program of one's own imports is not among them.
    """

    verb: str
    question: dict[str, Any] | None
    command: str
    catalog_sha256: str
    weights_sha256: str
    measurements_sha256: str | None
    libraries: dict[str, str]
    inputs: tuple[InputData, ...]
