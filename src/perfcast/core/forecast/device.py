"""The result of a forecast."""

from __future__ import annotations

from dataclasses import dataclass, field

from perfcast.core.forecast.fit import Fit
from perfcast.core.graph import Graph
from perfcast.core.mode import Mode
from perfcast.core.program import StepProgram


@dataclass(frozen=True, slots=True)
class KindTime:
    """Time of one group of nodes (a kind of operation, a module, a phase)."""

    label: str
    seconds: float
    count: int
    flops: int
    memory_traffic_bytes: int


@dataclass(frozen=True, slots=True)
class OperationTime:
    """One different operation in one phase; times, flops and bytes are totals over all its nodes.

    Attributes:
        name: The operator as PyTorch names it, or a composite.
        kind: Family of operations.
        phase: forward, backward or optimizer.
        shapes: Shapes and element types, as text.
        count: Nodes that issue it.
        seconds: Median time over all its nodes, in seconds.
        seconds_low: Low end of the interval, in seconds.
        seconds_high: High end of the interval, in seconds.
        flops: Floating-point operations over all its nodes.
        memory_traffic_bytes: Memory traffic over all its nodes, in bytes.
        output_bytes: Bytes that its outputs take, in bytes.
        bound_by: What limits it: compute, memory or launch.
        provenance: What the price rests on (see ``cost.model.Estimates``).
        nearest: The measurement nearest to the operation, in words; empty where none is known or it
            was not looked up.
    """

    name: str
    kind: str
    phase: str
    shapes: str
    count: int
    seconds: float
    seconds_low: float
    seconds_high: float
    flops: int
    memory_traffic_bytes: int
    output_bytes: int
    bound_by: str
    provenance: str = ""
    nearest: str = ""


@dataclass(frozen=True, slots=True)
class TensorInterval:
    """A block of memory and the nodes between which it lives.

    Attributes:
        num_bytes: Size, in bytes.
        category: Why it exists; no unit.
        created_by: Index of the node that allocates it; -1 where it is there before the step; no
            unit.
        created_by_name: Operation that allocates it; no unit.
        created_by_module: Dotted path of the module that allocates it, or that uses it first where
            it is there before the step; no unit.
        freed_after: Index of the last node before it is freed; no unit.
        last_used_by: Index of the last node that reads it; no unit.
        created_at: File, line and function of the program that asked for it; empty where none is
            known; no unit.
    """

    num_bytes: int
    category: str
    created_by: int
    created_by_name: str
    created_by_module: str
    freed_after: int
    last_used_by: int
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class AliveTensors:
    """Equal blocks that are alive at one moment.

    Equal are blocks of one size and category, made by one operation at one line of code in modules whose
    paths differ in numbers alone. ``module`` names them all: ``'h.0–35.mlp'``.
    """

    num_bytes: int
    count: int
    category: str
    operation: str
    module: str
    created_at: str

    @property
    def total_bytes(self) -> int:
        """Bytes of all of them."""
        return self.num_bytes * self.count


@dataclass(frozen=True)
class ReservedMemory:
    """What a process holds of a device: segments of PyTorch's caching allocator and the driver's context.

    Attributes:
        settings: Of the allocator, as ``PYTORCH_CUDA_ALLOC_CONF`` writes them; '' for the defaults.
        allocated_bytes, reserved_bytes: After each request of the first steps.
        step_starts: First request of each step.
        peak_bytes: Most that is reserved.
        fragmentation: Share of that which no tensor uses at that time.
        context_bytes, context_low_bytes, context_high_bytes: Median and range of what was measured on devices
            of the vendor; 0 where none was.
        num_retries: How often cached memory has to be given back for the step to fit.
        fits: Whether the steps run within the device's memory.
    """

    settings: str
    allocated_bytes: tuple[int, ...] = field(repr=False)
    reserved_bytes: tuple[int, ...] = field(repr=False)
    step_starts: tuple[int, ...] = field(repr=False)
    peak_bytes: int
    fragmentation: float
    context_bytes: int
    context_low_bytes: int
    context_high_bytes: int
    num_retries: int
    fits: bool

    @property
    def total_bytes(self) -> int:
        """Segments and context."""
        return self.peak_bytes + self.context_bytes


#: What takes less of one device; the captured step is not run again to see which suffices.
_ON_ONE_DEVICE = (
    "a smaller --micro-batch-size, --plan recompute=full or more devices may "
    "('perfcast memory --largest-batch' finds the largest batch that does)"
)


@dataclass(frozen=True)
class MemoryForecast:
    """Memory of one step.

    ``peak_bytes`` frees a block when the program drops its last reference; ``peak_by_last_use_bytes``
    after the last operation that reads it, which a compiler could reach. ``timeline_bytes[i]`` is what
    is held while node i runs, by category in ``timeline_bytes_by_category`` and by group of modules in
    ``timeline_bytes_by_module``. ``phase_starts`` are the first nodes of each stretch of one phase.
    ``alive_at_peak`` is what ``peak_bytes`` consists of, the most bytes first. ``reserved`` is what the
    allocator makes of it, where that was simulated.
    """

    peak_bytes: int
    peak_by_last_use_bytes: int
    peak_node: int
    peak_operation: str
    peak_module: str
    peak_phase: str
    bytes_by_category: dict[str, int]
    timeline_bytes: tuple[int, ...] = field(repr=False)
    timeline_bytes_by_category: dict[str, tuple[int, ...]] = field(repr=False)
    intervals: tuple[TensorInterval, ...] = field(repr=False)
    capacity_bytes: int
    timeline_bytes_by_module: dict[str, tuple[int, ...]] = field(default_factory=dict, repr=False)
    phase_starts: tuple[tuple[str, int], ...] = field(default=(), repr=False)
    alive_at_peak: tuple[AliveTensors, ...] = field(default=(), repr=False)
    reserved: ReservedMemory | None = None

    @property
    def needed_bytes(self) -> int:
        """What the device must have: reserved memory and context where they are known, else the peak."""
        return self.reserved.total_bytes if self.reserved else self.peak_bytes

    @property
    def fits(self) -> bool:
        """Whether what is needed is within the device's memory."""
        return self.reserved.fits if self.reserved else self.peak_bytes <= self.capacity_bytes

    @property
    def fit(self) -> Fit:
        """The same with what is needed, and its interval: that of the driver's context."""
        reserved = self.reserved
        return Fit(
            fits=self.fits,
            needed_bytes=self.needed_bytes,
            needed_bytes_low=reserved.peak_bytes + reserved.context_low_bytes
            if reserved
            else self.peak_bytes,
            needed_bytes_high=reserved.peak_bytes + reserved.context_high_bytes
            if reserved
            else self.peak_bytes,
            capacity_bytes=self.capacity_bytes,
            way_out="" if self.fits else _ON_ONE_DEVICE,
        )


@dataclass(frozen=True)
class HostShare:
    """What the host costs a step; seconds.

    Attributes:
        processor, title: Its name and what it is.
        is_chosen: Whether it is what such devices usually have, and nobody named it.
        mode: How the program runs: 'eager', 'compiled' or 'graphs'.
        busy_seconds: That the host needs to issue the step.
        waits_seconds: For which the device waits for it.
        waits_seconds_low, waits_seconds_high: The same with a host as fast and as slow as it may be.
        saved_by_graphs_seconds: Of the step, if one CUDA graph replayed it.
    """

    processor: str
    title: str
    is_chosen: bool
    mode: str
    busy_seconds: float
    waits_seconds: float
    waits_seconds_low: float
    waits_seconds_high: float
    saved_by_graphs_seconds: float


NO_HOST = HostShare("", "", False, "eager", 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Forecast:
    """Time and memory of one step on one device; all times in seconds.

    ``step_seconds`` is the sum over nodes and the time that the device waits for the host. ``program`` is
    what runs, ``defaults`` what was chosen of precision and sequence, in words.
    """

    model: str
    device: str
    device_title: str
    mode: Mode
    dtype: str
    batch_size: int
    sequence_length: int | None
    cost_model: str
    step_seconds: float
    step_seconds_low: float
    step_seconds_high: float
    exposed_host_seconds: float
    seconds_by_phase: dict[str, float]
    seconds_by_provenance: dict[str, float]
    by_kind: tuple[KindTime, ...] = field(repr=False)
    by_module: tuple[KindTime, ...] = field(repr=False)
    operations: tuple[OperationTime, ...] = field(repr=False)
    node_seconds: tuple[float, ...] = field(repr=False)
    memory: MemoryForecast
    flops: int
    recompute_flops: int
    peak_flops_per_second: float
    memory_bytes_per_second: float
    parameter_count: int
    program: StepProgram = field(repr=False)
    assumptions: tuple[str, ...] = field(repr=False)
    graph: Graph = field(repr=False)
    defaults: tuple[str, ...] = ()
    host: HostShare | None = None

    @property
    def fit(self) -> Fit:
        """Whether the device's memory holds the step."""
        return self.memory.fit

    @property
    def fits(self) -> bool:
        """The same, by the best estimate."""
        return self.memory.fits

    @property
    def mfu(self) -> float:
        """Model flops over what the device's peak could do in the step; 0 for a step that runs nothing."""
        return _ratio(self.flops, self.step_seconds * self.peak_flops_per_second)

    @property
    def hfu(self) -> float:
        """The same with recomputed flops counted."""
        return _ratio(self.flops + self.recompute_flops, self.step_seconds * self.peak_flops_per_second)

    @property
    def samples_per_second(self) -> float:
        """Sequences, images or samples per second."""
        return _ratio(self.batch_size, self.step_seconds)

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens that a step advances, per second; None where the model has no sequence.

        A step of training or prefill handles every token of every sequence; a decode step adds one to each.
        """
        if self.sequence_length is None:
            return None
        return self.samples_per_second * (1 if self.mode == "decode" else self.sequence_length)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
