"""``perfcast``: verbs, and what becomes of an error.

Exit codes: 0 done, 2 bad input, 3 does not fit (with --require-fit), 4 differs (explain-result), 1 an
internal fault, 130 interrupted.
"""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import click

from perfcast import __version__
from perfcast.cli.lazy import LazyGroup
from perfcast.errors import DiffersError, DoesNotFitError, InputError, PerfcastError
from perfcast.files.limits import limited
from perfcast.printer.streams import drop_output, finish_output, output_error, prepare_streams, say

_HOMES = {
    "predict": "perfcast.cli.predict.command",
    "search": "perfcast.cli.search.command",
    "shard": "perfcast.cli.shard",
    "memory": "perfcast.cli.memory",
    "mesh": "perfcast.cli.mesh.command",
    "scale": "perfcast.cli.scale.command",
    "serving": "perfcast.cli.serving.command",
    "trace": "perfcast.cli.trace.command",
    "replay": "perfcast.cli.replay.command",
    "measure": "perfcast.cli.measure.command",
    "calibrate": "perfcast.cli.calibrate",
    "gpu-check": "perfcast.cli.gpu_check",
    "train": "perfcast.cli.train",
    "data": "perfcast.cli.data",
    "validate": "perfcast.cli.validate",
    "published": "perfcast.cli.published",
    "catalog": "perfcast.cli.catalog",
    "explain-result": "perfcast.cli.explain_result",
    "web": "perfcast.cli.web",
}


class _NobodyReadsError(Exception):
    """Standard output is a pipe that was closed at its other end."""


class _Root(LazyGroup):
    """All verbs. click would end the process with 1 where nobody reads on; it is told in another way."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Raises _NobodyReadsError."""
        with _told_of_readers():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Raises _NobodyReadsError."""
        with _told_of_readers():
            return super().invoke(ctx)


@contextmanager
def _told_of_readers() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise _NobodyReadsError from error


@click.group(cls=_Root, homes=_HOMES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="perfcast")
@click.option(
    "--max-file", metavar="SIZE", help="Unpacked bytes beyond which no file is read; default: by its kind."
)
@click.pass_context
def cli(context: click.Context, max_file: str | None) -> None:
    """Forecast how fast deep-learning training and inference run, and how much memory they need."""
    if max_file is not None:
        context.with_resource(limited(max_file))


#: Verbs whose process ends with their answer and measures nothing: most that they make stays to the end.
#: Looking through it for what is not took a quarter of a first forecast, most of that when it had ended.
_COLLECT_LATE = ("predict", "memory", "search", "scale", "serving", "shard", "mesh", "catalog")


def main() -> None:
    """Entry point; turns errors into one line and an exit code."""
    prepare_streams()
    collects_late = any(verb in _COLLECT_LATE for verb in _verbs(sys.argv[1:]))
    if collects_late:
        gc.set_threshold(1_000_000, 20, 100)
    warnings.showwarning = _show_warning
    code = _finished(run(sys.argv[1:]))
    if collects_late:
        _end(code)
    sys.exit(code)


def _finished(code: int) -> int:
    """The exit code, once standard output has all that was said."""
    error = finish_output()
    return code if error is None else _report(error, code or 2)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Our own on one line, as errors are; others as Python shows them."""
    if category.__module__.startswith("perfcast."):
        say(f"warning: {message}", is_error=True)
    else:
        say(warnings.formatwarning(message, category, filename, lineno, line).rstrip("\n"), is_error=True)


def _verbs(arguments: list[str]) -> list[str]:
    """The verb, behind the options that stand before it."""
    while arguments and arguments[0].startswith("--max-file"):
        arguments = arguments[1 if "=" in arguments[0] else 2 :]
    return arguments[:1]


def _end(code: int) -> None:
    """End at once: what the process made is given back whole, and not piece by piece.

    What is to run at exit runs, and what was written is written; where other threads still work or an
    output takes nothing more, it returns, and the process ends as any other.
    """
    gc.freeze()
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        return
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError, AttributeError):
        return
    os._exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    try:
        cli.main(arguments, prog_name="perfcast", standalone_mode=False)
    except (KeyboardInterrupt, click.Abort):
        say("interrupted", is_error=True)
        return 130
    except _NobodyReadsError:
        drop_output()
    except click.ClickException as error:
        return _report_usage(error)
    except PerfcastError as error:
        return _report(error, next(code for kind, code in _CODES if isinstance(error, kind)))
    except (ModuleNotFoundError, OSError) as error:
        said = _said_of(error)
        if said is None:
            raise
        return _report(said, 2)
    except Exception:
        raise
    except BaseException as error:  # of code that the user named; our own raises none
        return _report(f"a program that was read ended itself by {type(error).__name__} ({error})", 2)
    return 0


#: What went wrong, and the exit code that says so.
_CODES = ((InputError, 2), (DoesNotFitError, 3), (DiffersError, 4), (PerfcastError, 1))
#: Packages that perfcast imports where they are used, and pip installs with it.
_PACKAGES = ("lightgbm", "numpy", "plotly", "polars", "pydantic", "rich", "scipy", "torch", "transformers")
#: What a stream says that takes nothing more. Files say it too, but name themselves, or were told of where
#: they are written.
_OF_STREAMS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def _said_of(error: ModuleNotFoundError | OSError) -> object | None:
    """What users can mend: a package that is not installed, a stream that takes nothing more; else None."""
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        said = f"this needs the package '{package}', which is not installed: pip install {package}"
        return said if package in _PACKAGES else None
    is_of_a_stream = error.filename is None and error.errno in _OF_STREAMS
    return output_error(error) if is_of_a_stream else None


def _report(error: object, code: int) -> int:
    say(f"error: {error}", is_error=True)
    return code


def _report_usage(error: click.ClickException) -> int:
    text = io.StringIO()
    error.show(text)
    say(text.getvalue().removesuffix("\n"), is_error=True)
    return 2
