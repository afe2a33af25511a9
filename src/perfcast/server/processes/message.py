"""What server and process tell each other: lines of JSON, and bytes that follow them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

#: Forms of an answer: JSON as the command line writes it, a page, trace events, the document itself.
Kind = Literal["json", "html", "perfetto", "document"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a process is to answer.

    Attributes:
        verb, plain: The question as plain data.
        kinds: The forms that are wanted.
        files: Option → paths, of recordings that were uploaded; no question of a user names a file.
        with_progress: Whether its progress is told.
    """

    verb: str
    plain: Mapping[str, object]
    kinds: tuple[Kind, ...]
    files: Mapping[str, object] = field(default_factory=dict)
    with_progress: bool = False

    def to_bytes(self) -> bytes:
        """As it is sent."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_bytes(text: bytes) -> Asked:
        """As it is received."""
        given = json.loads(text)
        return Asked(**{**given, "kinds": tuple(given["kinds"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a process tells: 'progress', then 'part' for each form, then 'done'; or 'problem'.

    Attributes:
        share: Of the work that is done; None where that is not known.
        text: What is being done; what is wrong.
        kind: Of the part whose bytes follow; '' of one that does not exist.
        status: Of HTTP, of a problem.
        close_names: Names that may have been meant.
        traceback: Of a fault inside; for the log alone.
    """

    what: Literal["progress", "part", "done", "problem"]
    share: float | None = None
    text: str = ""
    kind: str = ""
    status: int = 0
    close_names: tuple[str, ...] = ()
    traceback: str = ""

    def send(self, connection: Connection, body: bytes | None = None) -> None:
        """Send it, and the bytes that belong to it."""
        connection.send_bytes(json.dumps(asdict(self)).encode())
        if body is not None:
            connection.send_bytes(body)

    @staticmethod
    def receive(connection: Connection, most_bytes: int) -> tuple[Told, bytes]:
        """The next one with its bytes, of a part.

        Raises:
            EOFError: The process has ended.
            OSError: More bytes than are taken.
        """
        given = json.loads(connection.recv_bytes(most_bytes))
        told = Told(**{**given, "close_names": tuple(given["close_names"])})
        body = connection.recv_bytes(most_bytes) if told.what == "part" and told.kind else b""
        return told, body
