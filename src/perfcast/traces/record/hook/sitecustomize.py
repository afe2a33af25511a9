"""Found first on the path of every Python process of a recorded command: waits for PyTorch, then records.

Python imports a module of this name at its start. Nothing happens until the program itself imports
``torch.optim``, and nothing at all in processes that never do. What was hidden by this file is imported.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent


class _AfterOptimizers(importlib.abc.MetaPathFinder):
    """Lets ``torch.optim`` load as ever, then starts the recorder."""

    def find_spec(self, fullname, path=None, target=None):  # type: ignore[no-untyped-def]
        if fullname != "torch.optim":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_record(module):  # type: ignore[no-untyped-def]
                execute(module)
                _start_recorder()

            spec.loader.exec_module = execute_and_record  # type: ignore[method-assign]
        return spec


def _start_recorder() -> None:
    """Import it from where it is installed, also where the program's own Python does not know of it."""
    place = os.environ.get("PERFCAST_RECORD_PACKAGE")
    if place and place not in sys.path:
        sys.path.append(place)
    from perfcast.traces.record.recorder import install

    install()


def _import_hidden() -> None:
    """The ``sitecustomize`` that would have been imported without this one, if there is any."""
    path = [entry for entry in sys.path if not entry or Path(entry).resolve() != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("PERFCAST_RECORD"):
    sys.meta_path.insert(0, _AfterOptimizers())
    _import_hidden()
