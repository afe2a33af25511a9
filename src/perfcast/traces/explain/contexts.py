"""Where in the program a host event stands: its phase, its module and the marked range around it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.traces.events import HOST_CATEGORIES, NONE, Category, Codes, Trace
from perfcast.traces.timeline.calls import is_operator

_MODULE = re.compile(r"^nn\.Module: (.+)$")
_BACKWARD = re.compile(r"autograd::engine|Backward\d*$|## ?backward|torch::autograd::AccumulateGrad")
_OPTIMIZER = re.compile(r"^Optimizer\.|## ?optimizer|## ?zero_grad")
_DATA = re.compile(r"DataLoader|## ?copy_batch|## ?wait_for_batch", re.IGNORECASE)
#: Marks that are no ranges of the program: steps, nodes of autograd, collectives, generated kernels.
_NO_RANGE = re.compile(r"^ProfilerStep|Backward\d*$|^(nccl|gloo|c10d):|^triton_|^record_param_comms$")
_NUMBER = re.compile(r"#\d+")


class TracePhase(IntEnum):
    """Part of a step in which an event stands."""

    FORWARD = 0
    BACKWARD = 1
    OPTIMIZER = 2
    DATA = 3

    @property
    def label(self) -> str:
        """As it is read."""
        return self.name.lower()


def is_data_loading(name: str) -> bool:
    """Whether an event, or a marked range, loads or copies the next batch."""
    return _DATA.search(name) is not None


@dataclass(frozen=True)
class Contexts:
    """Where each row stands: its phase, and codes of its module and range in ``labels`` (0 is '').

    Device rows have their call's; ``assign`` puts them there.
    """

    phases: Codes
    modules: Codes
    ranges: Codes
    labels: tuple[str, ...]

    def label(self, code: int) -> str:
        """Text of a code."""
        return self.labels[code]


def find_contexts(trace: Trace, parents: Integers) -> Contexts:
    """Contexts of all host rows.

    A module is the path of the modules that were running, as far as Python's frames were recorded. A backward
    operator has the module of the forward one that it belongs to.

    Args:
        parents: The event around each row, Python's frames among them.
    """
    events = trace.events
    own_phase, own_module, own_range = _by_name(trace)
    labels = {"": 0}
    phases = np.zeros(len(events), dtype=np.int32)
    modules, ranges = np.zeros(len(events), dtype=np.int32), np.zeros(len(events), dtype=np.int32)
    rows = events.rows_in(*HOST_CATEGORIES)
    columns = zip(rows.tolist(), parents[rows].tolist(), events.name_codes[rows].tolist(), strict=True)
    texts = [""]
    of_row = dict[int, tuple[int, int, int]]()
    for row, parent, code in columns:
        phase, module, marked = of_row[parent] if parent != NONE else (0, 0, 0)
        if own_phase[code] != NONE:
            phase = own_phase[code]
        if own_module[code]:
            path = f"{texts[module]}.{own_module[code]}" if module else own_module[code]
            module = labels.setdefault(path, len(labels))
            if module == len(texts):
                texts.append(path)
        if own_range[code]:
            marked = labels.setdefault(own_range[code], len(labels))
            if marked == len(texts):
                texts.append(own_range[code])
        of_row[row] = (phase, module, marked)
    table = np.array(list(of_row.values()), dtype=np.int32).reshape(-1, 3)
    phases[rows], modules[rows], ranges[rows] = table[:, 0], table[:, 1], table[:, 2]
    _follow_backward(trace, parents, modules)
    return Contexts(phases, modules, ranges, tuple(texts))


def _by_name(trace: Trace) -> tuple[list[int], list[str], list[str]]:
    """For each name the phase that it begins (-1: none), the module that it is, the range that it marks."""
    events = trace.events
    marks = set(np.unique(events.name_codes[events.is_in(Category.ANNOTATION)]).tolist())
    operators = set(np.unique(events.name_codes[events.is_in(Category.OPERATOR)]).tolist())
    phases, modules, ranges = [], [], []
    for code, name in enumerate(events.names):
        module = _MODULE.match(name)
        is_mark = code in marks or (code in operators and not is_operator(name))
        phases.append(_phase(name) if is_mark or code in operators else NONE)
        modules.append(module.group(1) if module else "")
        ranges.append(_NUMBER.sub("", name) if is_mark and not _NO_RANGE.search(name) else "")
    return phases, modules, ranges


def _phase(name: str) -> int:
    for pattern, phase in (
        (_BACKWARD, TracePhase.BACKWARD),
        (_OPTIMIZER, TracePhase.OPTIMIZER),
        (_DATA, TracePhase.DATA),
    ):
        if pattern.search(name):
            return phase
    return NONE


def _follow_backward(trace: Trace, parents: Integers, modules: Codes) -> None:
    """Give backward operators the modules of their forward ones, and pass them on to what they call."""
    if not len(trace.forward_backward) or not modules.any():
        return
    forward, backward = trace.forward_backward[:, 0], trace.forward_backward[:, 1]
    modules[backward] = np.where(modules[forward] > 0, modules[forward], modules[backward])
    begun = np.zeros(len(modules), dtype=np.bool_)
    begun[backward] = True
    for row in np.flatnonzero(parents != NONE).tolist():
        parent = parents[row]
        if begun[parent] and not begun[row]:
            modules[row], begun[row] = modules[parent], True
