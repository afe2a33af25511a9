"""Recordings that users upload: kept under names of ours, in a folder that nobody else reads, for a time."""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
import tempfile
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from perfcast.server.problems import refuse

if TYPE_CHECKING:
    from perfcast.server.settings import Settings

_GZIP = b"\x1f\x8b"
_NAME = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Upload:
    """One of them.

    Attributes:
        id: Nobody guesses it; who has it may ask about the recording.
        num_bytes: As it was sent.
        uploaded_at: Seconds since 1970.
        kept_since: By the clock that nobody sets.
    """

    id: str
    path: Path
    num_bytes: int
    uploaded_at: float = field(default_factory=time.time)
    kept_since: float = field(default_factory=time.monotonic)


class Uploads:
    """All that are kept; used from one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder: Path | None = None
        self._kept: OrderedDict[str, Upload] = OrderedDict()

    @property
    def num_bytes(self) -> int:
        """Of all together."""
        return sum(upload.num_bytes for upload in self._kept.values())

    @property
    def upload_bytes(self) -> int:
        """What one may have."""
        return self._settings.upload_bytes

    @property
    def unpacked_bytes(self) -> int:
        """What one may unpack to."""
        return self._settings.unpacked_bytes

    async def keep(self, blocks: AsyncIterator[bytes]) -> Upload:
        """Write an upload as it comes.

        Raises:
            ProblemError: It is empty (400), or too large (413).
        """
        if self._settings.uploads_kept == 0:
            raise refuse(403, "This server takes no uploads.")
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="perfcast-uploads-"))
        name = secrets.token_hex(16)
        path = self._folder / name / "recording"  # alone in its folder: readers look at what lies beside
        path.parent.mkdir()
        try:
            num_bytes = await self._write(path, blocks)
            if num_bytes == 0:
                raise refuse(400, "The upload is empty.")
            path = path.rename(path.with_suffix(_ending(path)))
        except BaseException:
            shutil.rmtree(path.parent, ignore_errors=True)
            raise
        upload = Upload(name, path, num_bytes)
        self._kept[name] = upload
        self._forget()
        return upload

    async def _write(self, path: Path, blocks: AsyncIterator[bytes]) -> int:
        num_bytes = 0
        with path.open("xb") as file:
            async for block in blocks:
                num_bytes += len(block)
                if num_bytes > self._settings.upload_bytes:
                    raise refuse(413, f"An upload of at most {self._settings.upload_bytes:,} bytes is taken.")
                await asyncio.to_thread(file.write, block)
        return num_bytes

    def find(self, name: str) -> Upload:
        """An upload by its id.

        Raises:
            ProblemError: There is none, or none any more (404).
        """
        self._forget()
        if not _NAME.fullmatch(name) or name not in self._kept:
            raise refuse(404, "There is no such upload; uploads are kept for a time only.")
        return self._kept[name]

    def drop(self, name: str) -> None:
        """Forget an upload.

        Raises:
            ProblemError: As of ``find``.
        """
        self._remove(self.find(name))

    def close(self) -> None:
        """Forget all."""
        self._kept.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _forget(self) -> None:
        """Uploads that are too old, too many or too large together; the newest always stays."""
        settings = self._settings
        old = time.monotonic() - settings.upload_kept_seconds
        while self._kept:
            oldest = next(iter(self._kept.values()))
            is_too_much = len(self._kept) > settings.uploads_kept or (
                len(self._kept) > 1 and self.num_bytes > settings.uploads_kept_bytes
            )
            if not is_too_much and oldest.kept_since >= old:
                return
            self._remove(oldest)

    def _remove(self, upload: Upload) -> None:
        del self._kept[upload.id]
        shutil.rmtree(upload.path.parent, ignore_errors=True)


def _ending(path: Path) -> str:
    """By what it begins with, whatever it was called."""
    with path.open("rb") as file:
        return ".json.gz" if file.read(2) == _GZIP else ".json"
