"""Every error that perfcast raises on purpose.

::

    PerfcastError
    ├── InputError                 the user can mend it: the command line exits with 2
    │   ├── QuestionError          options that contradict, are missing, or have no use for what is asked
    │   ├── UnknownNameError       a device, model, operator … that is not known; lists close names
    │   ├── CatalogError           a data file with a missing, unsourced or impossible figure
    │   ├── ModelError             a config or module that cannot be read or built
    │   ├── CaptureError           a module whose step cannot be run symbolically
    │   ├── PlanError              a plan that the model or the device cannot follow
    │   ├── CalibrationError       measurements that cannot be fitted, or none where some are needed
    │   ├── TraceError             a trace that cannot be read, or lacks what is asked of it
    │   └── UnsupportedTorchError  a release of PyTorch that lacks what is needed
    ├── DoesNotFitError            the answer is given, but what has to fit does not: exits with 3
    ├── IncompleteError            the answer is given, but parts of it failed or were left out: exits with 1
    ├── DiffersError               the answer is given: a result does not come to be again: exits with 4
    └── UncoveredOperationError    an operation that no rule or cost model covers

Messages say what is wrong, where, and what to do about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PerfcastError(Exception):
    """Root of all errors raised on purpose."""


class InputError(PerfcastError):
    """Bad input; the message says what, where, and what to do."""


class QuestionError(InputError):
    """Options that contradict, that are missing, or that what is asked for has no use for."""


class UnknownNameError(InputError):
    """A name that a table does not hold."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        by_lower = {k.lower(): k for k in known}
        close = difflib.get_close_matches(name.lower(), by_lower, n=5, cutoff=0.5)
        close += [k for k in sorted(by_lower) if name.lower() in k and k not in close][: 5 - len(close)]
        close = [by_lower[k] for k in close]
        suggestion = f" Did you mean {', '.join(close)}?" if close else ""
        super().__init__(f"unknown {kind} '{name}'.{suggestion} {hint}".strip())
        self.kind, self.name, self.close_names = kind, name, close


class CatalogError(InputError):
    """A catalog file that fails its checks.

    Attributes:
        problems: Where the message lists several, each of them.
    """

    def __init__(self, message: str, *, problems: tuple[str, ...] = ()) -> None:
        head = f"{len(problems)} problems:\n  " if len(problems) > 1 else ""
        super().__init__(head + message.replace("\n", "\n  ") if head else message)
        self.problems = problems


class ModelError(InputError):
    """A model that cannot be read or built."""


class CaptureError(InputError):
    """A module whose step cannot be captured."""


class PlanError(InputError):
    """A plan that cannot be followed."""


class CalibrationError(InputError):
    """Measurements that are missing or cannot be fitted."""


class TraceError(InputError):
    """A trace that cannot be read, or that does not hold what is asked of it."""


class UnsupportedTorchError(InputError):
    """A release of PyTorch that lacks what is needed."""


class DoesNotFitError(PerfcastError):
    """What was asked to fit the memory of the devices does not, or is not known to."""


class IncompleteError(PerfcastError):
    """Work of many parts of which some are not done; what was found is written."""


class DiffersError(PerfcastError):
    """A result that is computed again is another one, or cannot be computed."""


class UncoveredOperationError(PerfcastError):
    """An operation that no rule or cost model covers."""
