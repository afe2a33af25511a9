"""What a server keeps to: where it listens, who may ask, and what a request may cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from perfcast.errors import InputError
from perfcast.units import GIB, HOUR, KIB, MIB, MILLI

#: Where a server listens if nothing is said: an address that no other machine reaches.
LOCAL_HOST = "127.0.0.1"
DEFAULT_PORT = 8642


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where a server listens, who may ask it, and what asking may cost.

    Attributes:
        host, port: Where it listens. Port 0 takes a free one.
        with_page: Whether the page is served beside the API.
        token: What every request has to bring (``Authorization: Bearer``, or the page's login); None asks for
            none.
        allowed_hosts: Names by which it may be reached, beside ``localhost`` and addresses in numbers. Any
            other name is refused, since a stranger's name may be made to point here (DNS rebinding).
        request_bytes: Body of a question.
        upload_bytes, unpacked_bytes: One uploaded recording, as sent and unpacked.
        uploads_kept, uploads_kept_bytes, upload_kept_seconds: Uploads kept; the oldest leave first.
        header_seconds, body_seconds, upload_seconds: How long a client may take to send a head, a question,
            an upload.
        requests_in_flight: Requests that are answered at a time; further ones are told to come again.
        connections: Open connections at a time, those that wait included.
        workers: Processes that answer questions.
        answer_seconds, answer_bytes: One answer outside of a job: its time, and the memory of the process
            that makes it.
        cached_bytes: Answers that are kept to be given again.
        jobs_running, jobs_waiting: Jobs at a time, and behind them in the queue.
        job_seconds, job_bytes: One job: its time from its start, and the memory of its process.
        result_bytes: One result.
        jobs_kept, job_kept_seconds: Finished jobs whose results are kept; the oldest leave first.
    """

    host: str = LOCAL_HOST
    port: int = DEFAULT_PORT
    with_page: bool = True
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    request_bytes: int = 256 * KIB
    upload_bytes: int = 256 * MIB
    unpacked_bytes: int = 2 * GIB
    uploads_kept: int = 16
    uploads_kept_bytes: int = 2 * GIB
    upload_kept_seconds: float = 4 * HOUR
    header_seconds: float = 15.0
    body_seconds: float = 15.0
    upload_seconds: float = 600.0
    requests_in_flight: int = 64
    connections: int = 512
    workers: int = 2
    answer_seconds: float = 60.0
    answer_bytes: int = 6 * GIB
    cached_bytes: int = 64 * MIB
    jobs_running: int = 2
    jobs_waiting: int = 8
    job_seconds: float = HOUR
    job_bytes: int = 8 * GIB
    result_bytes: int = 256 * MIB
    jobs_kept: int = 64
    job_kept_seconds: float = 4 * HOUR

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            least = 0 if one.name in _MAY_BE_NONE else 1
            if not math.isfinite(value) or value < (least if isinstance(value, int) else MILLI):
                raise InputError(f"{one.name}: {value} is no bound of a server; it must be at least {least}")
        if self.port > _LAST_PORT:
            raise InputError(f"port: {self.port} is none; the last is {_LAST_PORT}")
        if self.token is not None and len(self.token) < MIN_TOKEN_LENGTH:
            raise InputError(f"token: at least {MIN_TOKEN_LENGTH} characters, or it is soon guessed")


_LAST_PORT = 65_535
#: A token that is shorter can be guessed by asking.
MIN_TOKEN_LENGTH = 16
#: Bounds that may be zero: a free port, no queue, nothing kept.
_MAY_BE_NONE = ("port", "jobs_waiting", "cached_bytes", "jobs_kept", "uploads_kept")
