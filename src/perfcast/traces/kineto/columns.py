"""Kineto's events, a batch of parsed JSON objects at a time, gathered into columns.

The file's clock is microseconds, whole or fractional; here it becomes whole nanoseconds, so that equal
instants stay equal, and only the finished columns are seconds.
"""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.errors import TraceError
from perfcast.traces.events import (
    DEVICE_CATEGORIES,
    NONE,
    Category,
    Events,
    OperatorInputs,
    Thread,
)
from perfcast.units import GIGA

_CATEGORY_WORDS = {
    "cpu_op": Category.OPERATOR,
    "user_annotation": Category.ANNOTATION,
    "cuda_runtime": Category.RUNTIME,
    "mtia_runtime": Category.RUNTIME,
    "xpu_runtime": Category.RUNTIME,
    "xpu_driver": Category.DRIVER,
    "privateuse1_runtime": Category.RUNTIME,
    "privateuse1_driver": Category.DRIVER,
    "cuda_driver": Category.DRIVER,
    "kernel": Category.KERNEL,
    "gpu_memcpy": Category.MEMCPY,
    "gpu_memset": Category.MEMSET,
    "gpu_user_annotation": Category.DEVICE_ANNOTATION,
    "cuda_sync": Category.SYNCHRONIZATION,
    "python_function": Category.PYTHON,
    "overhead": Category.OVERHEAD,
    "Trace": Category.SPAN,
    "Operator": Category.OPERATOR,  # these words: Kineto of PyTorch 1.8 to 1.11
    "Runtime": Category.RUNTIME,
    "Kernel": Category.KERNEL,
    "Memcpy": Category.MEMCPY,
    "Memset": Category.MEMSET,
}
_ON_DEVICE = (*DEVICE_CATEGORIES, Category.DEVICE_ANNOTATION, Category.SYNCHRONIZATION)
_NANOSECONDS_PER_MICROSECOND = 1000
#: 2 ** 53 µs is the year 2255, and the last whole number that a JSON reader may count on.
_MAX_MICROSECONDS = 2**53
_INPUT_KEYS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
_NUMBER_COLUMNS = (
    "starts",
    "durations",
    "processes",
    "numbers",
    "devices",
    "streams",
    "correlations",
    "external_ids",
    "record_function_ids",
    "sequence_numbers",
    "forward_threads",
    "num_bytes",
)
_ARGUMENT_COLUMNS = {
    "devices": "device",
    "streams": "stream",
    "correlations": "correlation",
    "external_ids": "External id",
    "record_function_ids": "Record function id",
    "sequence_numbers": "Sequence number",
    "forward_threads": "Fwd thread id",
    "num_bytes": "bytes",
}
#: Arguments that a row of a collective or of a synchronisation carries, kept as they are.
_KEPT_WHEN = ("Collective name", "cuda_sync_kind")
_NO_ARGUMENTS: dict[str, Any] = {}
#: Of a file's limit of bytes, what an event counts at least, one whose arguments are kept, and the share
#: for names. Kineto's events take 300 to 600 bytes of text.
_BYTES_OF_EVENT, _BYTES_OF_KEPT, _SHARE_OF_CODES = 256, 4096, 8


class Flow(NamedTuple):
    """One end of an arrow from a forward operator to a backward one."""

    number: int
    is_start: bool
    process: int
    thread: int
    nanoseconds: int


class Codebook:
    """Numbers for what repeats: each different key, a text or bytes, gets the next one."""

    def __init__(self, max_size: int) -> None:
        self.codes: dict[str | bytes, int] = {}
        self._room = max_size

    def code(self, key: str | bytes) -> int:
        """The key's number.

        Raises:
            TraceError: All keys together are beyond reason: nothing repeats.
        """
        found = self.codes.get(key)
        if found is None:
            found = self.codes[key] = len(self.codes)
            self._room -= len(key)
            if self._room < 0:
                raise TraceError(f"an impossible number of different names or arguments ({found})")
        return found


class Columns:
    """Gathers events; ``finish`` gives the sorted columns and where each row stood in the file."""

    def __init__(self, name: str, max_bytes: int) -> None:
        self._name = name
        self._max_bytes = max_bytes
        self._parts: dict[str, list[np.ndarray[Any, Any]]] = {c: [] for c in _NUMBER_COLUMNS}
        self._codes: dict[str, list[np.ndarray[Any, Any]]] = {
            c: [] for c in ("name_codes", "categories", "inputs")
        }
        self._names, self._inputs = (Codebook(max_bytes // _SHARE_OF_CODES) for _ in range(2))
        self.num_events = 0
        self.thread_names: dict[tuple[int, int], str] = {}
        self.flows: list[Flow] = []
        self.kept: list[tuple[int, dict[str, Any]]] = []  # place in the file, arguments

    def add(self, items: Sequence[object]) -> None:
        """Take a batch of events.

        Raises:
            TraceError: An event that makes no sense; the message quotes it.
        """
        complete: list[dict[str, Any]] = []
        for item in items:
            if type(item) is not dict:
                raise TraceError(f"'{self._name}': an event that is not an object: {_quoted(item)}")
            phase = item.get("ph")
            if phase == "X":
                complete.append(item)
            elif phase == "M":
                self._add_metadata(item)
            elif phase in ("s", "f") and item.get("cat") == "fwdbwd":
                self._add_flow(item)
        self._check_number(len(complete))
        try:
            self._add_complete(complete)
        except (TypeError, ValueError, OverflowError, KeyError, AttributeError) as error:
            raise self._find_culprit(complete, error) from error

    def _check_number(self, more: int) -> None:
        """Columns take about 130 bytes an event, kept arguments ten times as much, however short the text."""
        most = self._max_bytes // _BYTES_OF_EVENT
        num_kept = _BYTES_OF_KEPT // _BYTES_OF_EVENT * len(self.kept)
        if self.num_events + more + len(self.flows) + len(self.thread_names) + num_kept > most:
            raise TraceError(
                f"'{self._name}' holds more events than the {most} that its limit of bytes allows; "
                "raise the limit (--max-bytes) if you trust it"
            )

    def _add_complete(self, events: list[dict[str, Any]]) -> None:
        arguments = [
            found if type(found := event.get("args", _NO_ARGUMENTS)) is dict else _NO_ARGUMENTS
            for event in events
        ]
        categories = [_CATEGORY_WORDS.get(event.get("cat", ""), Category.OTHER) for event in events]
        columns: dict[str, Integers] = {
            "starts": _nanoseconds([event["ts"] for event in events]),
            "durations": _nanoseconds([event.get("dur", 0) for event in events]),
            "processes": _places([event.get("pid", NONE) for event in events]),
            "numbers": _places([event.get("tid", NONE) for event in events]),
        }
        for column, key in _ARGUMENT_COLUMNS.items():
            columns[column] = _numbers([found.get(key, NONE) for found in arguments])
        code = self._names.code
        codes: dict[str, np.ndarray[Any, Any]] = {
            "name_codes": np.array([code(_text(event["name"])) for event in events], dtype=np.int32),
            "categories": np.array(categories, dtype=np.int8),
            "inputs": np.array([_code_of_inputs(self._inputs, a) for a in arguments], dtype=np.int32),
        }
        for place, found in enumerate(arguments, start=self.num_events):
            if _KEPT_WHEN[0] in found or _KEPT_WHEN[1] in found:
                self.kept.append((place, found))
        for column, values in columns.items():
            self._parts[column].append(values)
        for column, coded in codes.items():
            self._codes[column].append(coded)
        self.num_events += len(events)

    def _add_metadata(self, item: dict[str, Any]) -> None:
        arguments = item.get("args")
        process, thread = item.get("pid"), item.get("tid")
        if item.get("name") != "thread_name" or not isinstance(arguments, dict):
            return
        if isinstance(process, int) and isinstance(thread, int):
            self.thread_names[process, thread] = str(arguments.get("name", ""))

    def _add_flow(self, item: dict[str, Any]) -> None:
        try:
            places = [int(item[key]) for key in ("id", "pid", "tid")]
            instant = int(_nanoseconds([item["ts"]])[0])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise TraceError(f"'{self._name}': an arrow that makes no sense: {_quoted(item)}") from error
        self.flows.append(Flow(places[0], item["ph"] == "s", places[1], places[2], instant))

    def _find_culprit(self, events: list[dict[str, Any]], error: Exception) -> TraceError:
        """The first event of the batch that fails alone."""
        for event in events:
            try:
                Columns(self._name, self._max_bytes)._add_complete([event])
            except (TypeError, ValueError, OverflowError, KeyError, AttributeError) as cause:
                reason = f"it lacks {cause}" if isinstance(cause, KeyError) else str(cause)
                return TraceError(
                    f"'{self._name}': an event that makes no sense ({reason}): {_quoted(event)}"
                )
        return TraceError(f"'{self._name}': events that make no sense: {error}")

    def finish(self) -> Finished:
        """The columns in their order, the origin, and for each place in the file its row.

        Raises:
            TraceError: No events, or timestamps further apart than a year.
        """
        if not self.num_events:
            raise TraceError(f"'{self._name}' holds no event with a duration: is it a profiler's trace?")
        numbers = {column: np.concatenate(parts) for column, parts in self._parts.items()}
        codes = {column: np.concatenate(parts) for column, parts in self._codes.items()}
        self._parts, self._codes = {}, {}
        starts, durations = numbers.pop("starts"), numbers.pop("durations")
        origin = int(starts.min())
        self._check_span(starts, durations, origin)
        orders = np.lexsort((np.arange(len(starts)), -durations, starts))
        numbers = {column: values[orders] for column, values in numbers.items()}
        codes = {column: values[orders] for column, values in codes.items()}
        starts, durations = starts[orders] - origin, durations[orders]
        threads, table = self._threads(
            codes["categories"], numbers.pop("processes"), numbers.pop("numbers"), numbers
        )
        events = Events(
            start_seconds=starts / GIGA,
            end_seconds=(starts + durations) / GIGA,
            threads=threads,
            orders=orders,
            names=tuple(str(name) for name in self._names.codes),
            threads_table=table,
            inputs_table=tuple(
                _operator_inputs(marshal.loads(key)) for key in self._inputs.codes if isinstance(key, bytes)
            ),
            devices=numbers.pop("devices").astype(np.int32),
            **codes,
            **numbers,
        )
        rows = np.empty(len(orders), dtype=np.int64)
        rows[orders] = np.arange(len(orders))
        return Finished(events, origin, starts, rows)

    def _check_span(self, starts: Integers, durations: Integers, origin: int) -> None:
        year = 366 * 86_400 * 10**9
        span = int((starts - origin + durations).max())
        if span > year:
            raise TraceError(
                f"'{self._name}': its timestamps span {span / year:.1f} years; "
                "a clock was broken while it was recorded"
            )

    def _threads(
        self,
        categories: np.ndarray[Any, Any],
        processes: Integers,
        numbers: Integers,
        columns: dict[str, Integers],
    ) -> tuple[np.ndarray[Any, Any], tuple[Thread, ...]]:
        """Codes of host threads; device events without arguments get device and stream from their place."""
        on_device = np.isin(categories, np.array(_ON_DEVICE, dtype=np.int8))
        for column, place in (("devices", processes), ("streams", numbers)):
            unsaid = on_device & (columns[column] == NONE)
            columns[column] = np.where(on_device, np.where(unsaid, place, columns[column]), NONE)
        threads = np.full(len(categories), NONE, dtype=np.int32)
        host = ~on_device & (categories != Category.SPAN)
        pairs, codes = np.unique(
            np.stack([processes[host], numbers[host]], axis=1), axis=0, return_inverse=True
        )
        threads[host] = codes.reshape(-1)
        table = tuple(Thread(p, n, self.thread_names.get((p, n), "")) for p, n in pairs.tolist())
        return threads, table


class Finished(NamedTuple):
    """``start_nanoseconds`` are those of the rows; ``rows`` gives a place in the file its row."""

    events: Events
    origin_nanoseconds: int
    start_nanoseconds: Integers
    rows: Integers


def _nanoseconds(microseconds: list[Any]) -> Integers:
    """Whole nanoseconds of clock readings in microseconds.

    Raises:
        ValueError: Negative or beyond reason.
        TypeError: Not a number.
    """
    if all(type(value) is int for value in microseconds):
        if microseconds and (min(microseconds) < 0 or max(microseconds) > _MAX_MICROSECONDS):
            raise ValueError("a negative or impossibly large time")
        return np.array(microseconds, dtype=np.int64) * _NANOSECONDS_PER_MICROSECOND
    values = np.array(microseconds, dtype=np.float64)
    if not np.all((values >= 0) & (values <= _MAX_MICROSECONDS)):
        raise ValueError("a negative, impossibly large or missing time")
    return np.rint(values * _NANOSECONDS_PER_MICROSECOND).astype(np.int64)


def _numbers(values: list[Any]) -> Integers:
    """Whole numbers; what does not fit into 64 signed bits (or 2 ** 32 - 1, 'all streams') is ``NONE``."""
    try:
        numbers = np.array(values, dtype=np.int64)
    except (OverflowError, TypeError, ValueError):
        numbers = np.array([_number(value) for value in values], dtype=np.int64)
    return np.where(numbers == 2**32 - 1, NONE, numbers)


def _number(value: object) -> int:
    if isinstance(value, str):
        value = int(value) if value.removeprefix("-").isdecimal() and len(value) < 20 else NONE
    if not isinstance(value, int):
        return NONE
    return value if -(2**63) <= value < 2**63 else NONE


def _places(values: list[Any]) -> Integers:
    """Process or thread numbers; words ('Spans') are ``NONE``."""
    return _numbers([value if type(value) is int else NONE for value in values])


def _text(value: object) -> str:
    if type(value) is not str:
        raise TypeError("a name that is not text")
    return value


def _code_of_inputs(book: Codebook, arguments: dict[str, Any]) -> int:
    """The number of an operator's inputs among all different ones; ``NONE`` where there are none."""
    values = [arguments.get(key) for key in _INPUT_KEYS]
    return NONE if values.count(None) == len(values) else book.code(marshal.dumps(values, 2))


def _operator_inputs(values: list[Any]) -> OperatorInputs:
    shapes, types, strides, concrete = (_tuples(value) if isinstance(value, list) else () for value in values)
    return OperatorInputs(
        shapes, tuple(str(t) for t in types), strides, tuple(str(value) for value in concrete)
    )


def _tuples(value: list[Any]) -> tuple[Any, ...]:
    return tuple(_tuples(item) if isinstance(item, list) else item for item in value)


def _quoted(value: object) -> str:
    text = str(value)
    return text if len(text) <= 160 else text[:160] + "…"
