"""torch.compile's machinery, imported when it is first used and not before.

Fake tensors ask ``torch._dynamo.config`` for two settings, and functions that compilation is to leave alone
ask ``torch._dynamo.disable`` to wrap them (torch/_subclasses/fake_tensor.py, ``FakeTensorMode.__init__``;
torch/_compile.py, ``_disable_dynamo``). Both import all of the compiler, sympy included: a second, for
nothing, where nothing is compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial, wraps
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

_NAME, _SOURCES = "torch._dynamo", "torch._dynamo.source"


class _Deferred(ModuleType):
    """Stands for ``torch._dynamo`` until anything but a setting is asked of it; then it is that module."""

    def __init__(self, config: ModuleType) -> None:
        super().__init__(_NAME)
        self.__file__ = str(Path(config.__file__ or "").with_name("__init__.py"))
        self.config = config
        self._later: list[Callable[[ModuleType], object]] = []  # what the compiler is told once it is there

    def disable(self, fn: Any = None, recursive: bool = True, **options: Any) -> Any:
        """Runs the function as it is while nothing compiles, and as the compiler says once that is there."""
        if fn is None:
            return partial(self.disable, recursive=recursive, **options)
        if sys.modules.get(_NAME) is not self or not isinstance(fn, FunctionType):
            return self.__getattr__("disable")(fn, recursive, **options)
        if options == {"wrapping": False}:  # torch/_compile.py keeps it on the function
            self._later.append(lambda real: _keep_disabled(fn, real.disable(fn, recursive, **options)))
            return fn

        @wraps(fn)
        def left_alone(*args: Any, **kwargs: Any) -> Any:
            if sys.modules.get(_NAME) is self:
                return fn(*args, **kwargs)
            return self.__getattr__("disable")(fn, recursive, **options)(*args, **kwargs)

        left_alone.__dict__ |= {"_torchdynamo_disable": True, "_torchdynamo_orig_callable": fn}
        return left_alone

    def allow_in_graph(self, fn: Any) -> Any:
        """Says something of the function, and gives it back."""
        return self._told("allow_in_graph", fn)

    def assume_constant_result(self, fn: Any) -> Any:
        """Says something of the function, and gives it back."""
        return self._told("assume_constant_result", fn)

    def graph_break(self, *args: Any, **options: Any) -> None:
        """Where a compiler would break off; nothing compiles."""
        if sys.modules.get(_NAME) is not self:
            self.__getattr__("graph_break")(*args, **options)

    def mark_static_address(self, t: Any, guard: bool = False) -> None:
        """As ``torch._dynamo.decorators.mark_static_address`` marks tensors."""
        import torch

        if sys.modules.get(_NAME) is not self or not isinstance(t, torch.Tensor):
            self.__getattr__("mark_static_address")(t, guard)
        else:
            t.__dict__["_dynamo_static_input_type"] = "guarded" if guard else "unguarded"

    def _told(self, name: str, fn: Any) -> Any:
        if sys.modules.get(_NAME) is not self or not isinstance(fn, FunctionType):
            return self.__getattr__(name)(fn)
        self._later.append(lambda real: getattr(real, name)(fn))
        return fn

    def __getattr__(self, name: str) -> Any:
        """Of the real module; those who look through all modules (``inspect``) do not make it so.

        ``__path__`` is what an import of another file of the package begins with.
        """
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        if sys.modules.get(_NAME) is self:
            self._become()
        return getattr(sys.modules[_NAME], name)

    def _become(self) -> None:
        del sys.modules[_NAME]
        sys.modules.pop(_SOURCES, None)
        real = import_module(_NAME)
        for tell in self._later:
            tell(real)


def _keep_disabled(function: Any, disabled: Any) -> None:
    function.__dynamo_disable = disabled


def _sources() -> ModuleType:
    """``torch._dynamo.source`` as fake copies of real tensors ask for it: what to call one."""
    from torch._guards import GuardSource, Source

    class ConstantSource(Source):
        source_name: str

        def __init__(self, source_name: str) -> None:
            object.__setattr__(self, "source_name", source_name)

        @property
        def _name_template(self) -> str:
            return self.source_name

        @property
        def guard_source(self) -> GuardSource:
            return GuardSource.CONSTANT

    class RandomValueSource(Source):
        """Only the compiler makes these; without it nothing is one."""

    def of_the_real_one(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if isinstance(sys.modules.get(_NAME), _Deferred):
            sys.modules[_NAME].__path__  # noqa: B018 (what imports the package)
        return getattr(import_module(_SOURCES), name)

    stand_in: Any = ModuleType(_SOURCES)
    stand_in.ConstantSource, stand_in.RandomValueSource = ConstantSource, RandomValueSource
    stand_in.__getattr__ = of_the_real_one
    found: ModuleType = stand_in
    return found


def defer_dynamo() -> None:
    """From now on the compiler is imported when it is used, if it was not before."""
    import torch

    if _NAME in sys.modules:
        return
    config = _load_alone("config")
    if config is not None:
        deferred: Any = _Deferred(config)
        sys.modules[_NAME] = torch._dynamo = deferred
        sys.modules[_SOURCES] = _sources()


def load_alone(name: str) -> None:
    """Import one file of the compiler that needs none of the others, while the compiler is deferred."""
    if isinstance(sys.modules.get(_NAME), _Deferred) and f"{_NAME}.{name}" not in sys.modules:
        _load_alone(name)


def _load_alone(name: str) -> ModuleType | None:
    """A file of the package without the package; None where it does not stand alone."""
    import torch

    full_name = f"{_NAME}.{name}"
    spec = spec_from_file_location(full_name, Path(torch.__file__).parent / "_dynamo" / f"{name}.py")
    if spec is None or spec.loader is None:
        return None
    module = sys.modules[full_name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (ImportError, AttributeError, OSError):
        del sys.modules[full_name]
        return None
    return module
