"""``perfcast web``: the page and the HTTP API."""

from __future__ import annotations

from importlib.util import find_spec

import click

from perfcast.cli.options.numbers import Number, Whole
from perfcast.cli.options.pack import Command
from perfcast.errors import InputError
from perfcast.printer.streams import say
from perfcast.ranges import SECONDS, Range
from perfcast.units import PETA

#: Option → what it bounds. Defaults stand in ``server.settings.Settings``.
_BOUNDS = {
    "request_bytes": (int, "Body of a question."),
    "upload_bytes": (int, "One uploaded recording, as sent."),
    "unpacked_bytes": (int, "One uploaded recording, unpacked."),
    "header_seconds": (float, "Until the head of a connection's first request."),
    "body_seconds": (float, "Until the whole body of a question."),
    "requests_in_flight": (int, "Requests that are answered at a time."),
    "workers": (int, "Processes that answer questions."),
    "answer_seconds": (float, "Time of an answer outside of a job."),
    "answer_bytes": (int, "Memory of a process that answers."),
    "cached_bytes": (int, "Answers kept to be given again."),
    "jobs_running": (int, "Jobs at a time."),
    "jobs_waiting": (int, "Jobs in the queue behind them."),
    "job_seconds": (float, "Time of one job."),
    "job_bytes": (int, "Memory of one job."),
    "jobs_kept": (int, "Finished jobs whose results are kept."),
    "job_kept_seconds": (float, "How long they are kept."),
}

PORT = Range(0, 65_535, "a port of this machine")


def _bounds(command: Command) -> Command:
    for name, (kind, said) in reversed(_BOUNDS.items()):
        flag = "--" + name.replace("_", "-")
        allowed = Whole(Range(0, PETA)) if kind is int else Number(SECONDS)
        command = click.option(flag, name, type=allowed, help=f"Bound: {said[0].lower()}{said[1:]}")(command)
    return command


@click.command()
@click.option("--host", metavar="ADDRESS", help="Where to listen; this machine alone if not said.")
@click.option("--port", type=Whole(PORT), help="0 takes a free one. [default: 8642]")
@click.option(
    "--token", envvar="PERFCAST_WEB_TOKEN", metavar="SECRET", help="What every request has to bring."
)
@click.option(
    "--allowed-host", "allowed_hosts", multiple=True, metavar="NAME", help="A name it may be reached by."
)
@click.option("--page/--no-page", "with_page", default=True, help="The page beside the API.  [default: page]")
@_bounds
def web(**given: object) -> None:
    """Serve the page and the JSON API: every question of the command line, asked by a browser or a program.

    It listens on this machine alone unless --host says more. Anybody who reaches it can ask: give it a
    --token (better: the variable PERFCAST_WEB_TOKEN, which no list of processes shows) where others may.
    """
    missing = [name for name in ("nicegui", "fastapi", "uvicorn") if find_spec(name) is None]
    if missing:
        raise InputError("perfcast web needs more packages: pip install 'perfcast[web]'")
    from perfcast.server.run import run_server
    from perfcast.server.settings import LOCAL_HOST, Settings

    settings = Settings(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    if settings.host not in (LOCAL_HOST, "localhost", "::1") and settings.token is None:
        say("note: others can reach this server, and no --token is asked of them", is_error=True)
    run_server(settings, on_ready=lambda address: say(f"perfcast is at {address} (Ctrl+C ends it)"))
