"""Whatever a user's program raises while it is captured, said as one error that names its line."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from perfcast.errors import CaptureError, PerfcastError
from perfcast.printer.streams import streams_of_others
from perfcast.torch_internals.eager import DataDependentOutputException, DynamicOutputShapeException
from perfcast.workload.capture.fold import NotFoldableError


@contextmanager
def capture_errors(doing: str) -> Iterator[None]:
    """Whatever the model's code raises becomes one error that names its line."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with streams_of_others():
            yield
    except (PerfcastError, NotFoldableError):
        raise
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        operator = getattr(error, "func", error)
        raise CaptureError(
            f"{_line_of(error)}: control flow or a shape depends on the values of a tensor ({operator}), "
            "which a symbolic run does not have. Take the branch by a constant, or keep the shape fixed."
        ) from error
    except Exception as error:
        message = str(error).strip().split("\n")[0] or type(error).__name__
        raise CaptureError(
            f"{doing} failed at {_line_of(error)}: {type(error).__name__}: {message}"
        ) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # of the model's code: SystemExit, or one of its own
        raise CaptureError(
            f"{doing} failed at {_line_of(error)}: it ended itself by {type(error).__name__} ({error})"
        ) from error
    finally:
        logger.setLevel(level)


def _line_of(error: BaseException) -> str:
    """``file:line`` of the innermost frame of the model's own code."""
    own = str(Path(__file__).parents[1])
    torch_folder = str(Path(torch.__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    outside = [f for f in frames if not f.filename.startswith((own, torch_folder, "<"))]
    frame = outside[-1] if outside else frames[-1]
    return f"{frame.filename}:{frame.lineno}"
