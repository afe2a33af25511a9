"""What ``perfcast search`` is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from perfcast.core.mode import MODES, Mode
from perfcast.core.plans.text import PlanValue
from perfcast.core.training import OPTIMIZERS, Optimizer
from perfcast.core.words import known_word
from perfcast.ranges import (
    BATCH,
    FRACTION,
    PROCESSES,
    SEQUENCES,
    STEP_TOKENS,
    TOKENS_OF_RUN,
    TOKENS_OF_SEQUENCE,
    Range,
)
from perfcast.verbs.question import FILE, PLACE, Question, amount, between, each, usually, within
from perfcast.verbs.shared.serving import EngineQuestion, RequestsQuestion
from perfcast.verbs.shared.tuning import TuningQuestion
from perfcast.verbs.shared.values import split_names

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What a search is of: a step, or a deployment that serves requests as they come.
SearchMode = Literal[Mode, "serving"]
SEARCH_MODES: tuple[SearchMode, ...] = (*MODES, "serving")
Backend = Literal["local", "ray"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)


@dataclass(frozen=True)
class _Searched(Question):
    """What a plan is searched for: the field that goes without its name in Python.

    Attributes:
        model: Catalog names, or Hugging Face config.json files or their folders; several make a sweep.
    """

    arguments: ClassVar[tuple[str, ...]] = ("model",)

    model: tuple[str, ...] | str = field(metadata=FILE)


@dataclass(frozen=True, kw_only=True)
class FleetQuestion(EngineQuestion, RequestsQuestion):
    """Requests, load and engines of a search over deployments.

    Attributes:
        max_latency: Limit of a whole answer.
        limits_of: Of serving, what of the requests keeps limits: mean, median, p90 or p99.
        dtypes: Of serving: all are tried.
        kv_cache_dtypes: Of serving: all are tried.
        max_sequences: Of an engine at once, tried; default: the framework's and, with a load, smaller ones.
        max_step_tokens: New tokens of a step, tried; default: the framework's, 2048, 4096, 8192 and 16384.
        pools: Of serving: aggregated, disaggregated; default: both.
        num_played: Of serving: deployments, best by formula, that are played by events.
    """

    max_latency: str | float | None = None
    limits_of: str | None = field(default=None, metadata=usually("p90"))
    dtypes: tuple[str, ...] | str = ()
    kv_cache_dtypes: tuple[str, ...] | str = ()
    max_sequences: tuple[int, ...] | int = field(default=(), metadata=within(SEQUENCES))
    max_step_tokens: tuple[int, ...] | int = field(default=(), metadata=within(STEP_TOKENS))
    pools: tuple[str, ...] | str = ()
    num_played: int | None = field(default=None, metadata=usually(8, within=Range(0, 200)))


@dataclass(frozen=True, kw_only=True)
class SearchQuestion(FleetQuestion, TuningQuestion, _Searched):
    """The best plan of a model on a cluster, and why it wins.

    Attributes:
        cluster: Catalog names or .toml files with their devices; several are compared.
        global_batch_size: Sequences of a step; several make a sweep.
        sequence_length: Tokens; default: the model's own, at most 8,192.
        mode: train; prefill or decode, of batches that arrive at once; serving, of requests as they come.
        dtype: bf16, fp16, fp32, fp8; of inference fp8_block, mxfp8, nvfp4, mxfp4, int8, int8_wo, int4_wo, …;
            default: of a training mixed precision, of inference what the model's config says.
        kv_cache_dtype: Of inference, keys and values: auto (what the framework keeps), bf16, fp16, fp8, int8,
            nvfp4.
        optimizer: Of training.
        framework: Whose program trains, and can run the plans that are offered; default: that of --hand-over,
            else megatron. Of inference: whose kernels answer: vllm (default), sglang, trtllm.
        compile: Of training: fuse kernels as torch.compile would.
        any_framework: Plans too that the framework cannot run, such as DualPipe.
        cost_model: learned (default), roofline, a published one; searcher-3d: its choice beside ours.
        fix: Dimensions that are decided: tp=8,zero=1,recompute_layers=2,shards=8,stages=7/8/8/7 (or even,
            balanced), …; may be repeated.
        max_memory_fraction: Of a device's memory that a plan may take.
        min_mfu: Such as 0.4.
        objective: time (default), tokens-per-second (default of inference), dollars-per-token,
            energy-per-token, time-to-train, devices: the fewest that keep --deadline (of serving: the
            limits), or latency (of serving).
        tokens: Of the whole training, such as 15T or 1e12.
        deadline: Of the whole training, such as 30d or 12h.
        prices: Dollars per device and hour: .toml, .json or .csv.
        top: Plans shown.
        num_simulated: Most plans that are simulated event by event; default: 200 (of a sweep: 0).
        no_simulate: The same as --num-simulated 0.
        processes: Default: two where there are two processors; of a sweep: with --backend ray.
        compare: tp=8,pp=4,mbs=1,…: explained beside the winner; may be repeated.
        sensitivity: How the winner changes with network, memory, batch.
        max_ttft: Of inference: until the first token, such as 500ms.
        max_tpot: Of inference: for each further token, such as 50ms.
        hand_over: torchtitan, megatron, deepspeed or fsdp2.
        backend: Of a sweep: local or ray.
        address: Of a running Ray cluster; default: one is started.
        store: Keeps a sweep's finished cells, for the next run.
    """

    verb: ClassVar[str] = "search"
    written: ClassVar[tuple[str, ...]] = ("store",)

    cluster: tuple[str, ...] | str = field(metadata=FILE)
    global_batch_size: tuple[int, ...] | int = field(default=(), metadata=within(BATCH))
    sequence_length: tuple[int, ...] | int = field(default=(), metadata=within(TOKENS_OF_SEQUENCE))
    mode: SearchMode | None = field(default=None, metadata=usually("train"))
    dtype: str | None = None
    kv_cache_dtype: str | None = None
    optimizer: Optimizer | None = field(default=None, metadata=usually("adamw"))
    framework: str | None = None
    compile: bool = False
    any_framework: bool = False
    cost_model: str | None = None
    fix: tuple[str, ...] | str = ()
    max_memory_fraction: float | None = field(default=None, metadata=usually(1.0, within=FRACTION))
    min_mfu: float | None = field(default=None, metadata=within(FRACTION))
    objective: str | None = None
    tokens: float | None = field(default=None, metadata=amount(TOKENS_OF_RUN))
    deadline: str | float | None = None
    prices: str | None = field(default=None, metadata=PLACE)
    top: int | None = field(default=None, metadata=usually(10, within=Range(1, 1000)))
    num_simulated: int | None = field(default=None, metadata=between(0, 10_000))
    no_simulate: bool = False
    processes: int | None = field(default=None, metadata=within(PROCESSES))
    compare: tuple[str, ...] | str = ()
    sensitivity: bool = False
    max_ttft: str | float | None = None
    max_tpot: str | float | None = None
    hand_over: str | None = None
    backend: Backend | None = field(default=None, metadata=usually("local", is_place=True))
    address: str | None = field(default=None, metadata=PLACE)
    store: str | None = field(default=None, metadata=PLACE)

    @property
    def models(self) -> tuple[str, ...]:
        """One, or those of a sweep."""
        return each(self.model)

    @cached_property
    def clusters(self) -> tuple[str, ...]:
        """Names, each once."""
        return split_names("--cluster", each(self.cluster))

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """Empty where none is given."""
        return each(self.global_batch_size)

    @property
    def sequence_lengths(self) -> tuple[int, ...]:
        """Empty where none is given."""
        return each(self.sequence_length)

    @property
    def search_mode(self) -> SearchMode:
        """What is searched."""
        return known_word("mode", self.text("mode"), SEARCH_MODES)

    @property
    def optimizer_word(self) -> Optimizer:
        """Of training."""
        return known_word("optimizer", self.text("optimizer"), OPTIMIZERS)

    @property
    def backend_word(self) -> Backend:
        """Of a sweep."""
        return known_word("backend", self.text("backend"), BACKENDS)

    @cached_property
    def fixed(self) -> Mapping[str, PlanValue]:
        """Dimensions that are decided, by key."""
        from perfcast.searches.space.fixed import read_fixed

        return read_fixed(*each(self.fix))

    @property
    def is_sweep(self) -> bool:
        """Whether several searches are asked for, or what only a sweep has."""
        several = max(len(self.models), len(self.batch_sizes), len(self.sequence_lengths)) > 1
        return several or self.backend_word != "local" or self.store is not None
