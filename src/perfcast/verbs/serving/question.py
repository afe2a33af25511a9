"""What ``perfcast serving`` is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.plan import Plan
from perfcast.core.plans.text import format_values, stated_values
from perfcast.core.serving.load import MeasuredWindow
from perfcast.ranges import DEGREE, DEVICES, FRACTION, REQUESTS, SEED, SEQUENCES, STEP_TOKENS
from perfcast.verbs.question import FILE, Question, usually, within
from perfcast.verbs.shared.serving import EngineQuestion, RequestsQuestion

#: Which of the two forms answers, as the option says it.
MethodWord = Literal["events", "closed-form", "both"]
METHOD_WORDS: tuple[MethodWord, ...] = get_args(MethodWord)

_PLANS = ("plan", "prefill_plan", "decode_plan")


@dataclass(frozen=True)
class _Served(Question):
    """What is served, and where: the fields that go without their names in Python.

    Attributes:
        model: A catalog name, or a Hugging Face config.json or its folder.
        device: Catalog name, or FILE.toml.
    """

    arguments: ClassVar[tuple[str, ...]] = ("model",)

    model: str = field(metadata=FILE)
    device: str | Device | None = field(default=None, metadata=FILE)


@dataclass(frozen=True, kw_only=True)
class ServingQuestion(EngineQuestion, RequestsQuestion, _Served):
    """What clients of a deployment wait under load, and what serving a model answers, holds and costs.

    Attributes:
        devices: Number of devices, of all replicas; default: those they take.
        cluster: Or devices and their links.
        plan: Of one replica: tp=4,pp=2; dp=8,ep=8 are attention data-parallel ranks that share experts.
            Default: the smallest that holds weights and a sensible cache.
        replicas: Of that plan; default: as many as the devices allow.
        prefill_plan: Disaggregated: a replica that reads prompts.
        prefill_replicas: Default: 1.
        decode_plan: Disaggregated: a replica that writes answers.
        decode_replicas: Default: 1.
        requests: Recorded requests: Azure's or BurstGPT's .csv, Mooncake's .jsonl, or columns
            arrival_seconds,prompt_tokens,answer_tokens; without another load they come at their own times.
        num_requests: That are played; default: 10 of each client, 200 at least; 1,000 of a stream.
        measure: Figures are of all requests, the first wave included, or of the steady part.
        seed: Of lengths and arrivals.
        saturated: All requests wait at the door from the beginning.
        dtype: bf16, fp16, fp32, fp8; of inference fp8_block, mxfp8, nvfp4, mxfp4, int8, int8_wo, int4_wo, …;
            default: of a training mixed precision, of inference what the model's config says.
        kv_cache_dtype: Of inference, keys and values: auto (what the framework keeps), bf16, fp16, fp8, int8,
            nvfp4.
        framework: Whose program serves: vllm (default), sglang, trtllm.
        max_sequences: Of an engine at once; default: the framework's.
        max_step_tokens: New tokens of a step; default: the framework's.
        chunked_prefill: Prompts read in several steps.
        block_tokens: Of a block of keys and values; default: the framework's.
        cuda_graphs: Steps of decoding are replayed.
        max_ttft: Limit, such as 500ms: goodput.
        max_tpot: Limit of each further token.
        max_latency: Limit of a whole answer.
        percentile: Share of requests that must keep the limits; default: 0.9.
        method: events (every step), closed-form (the steady state), or both side by side.
        cost_model: learned (default), roofline, or a published one.
        price: Dollars of a device-hour, or a FILE.toml of prices by device.
        sweep: Curves: concurrency=1,4,16,64, request-rate, input-length, output-length, replicas,
            max-sequences, max-step-tokens; several are combined.
        window: Of a timeline: seconds whose steps are kept, FROM:TO; default: 0:10.
    """

    verb: ClassVar[str] = "serving"

    devices: int | None = field(default=None, metadata=within(DEVICES))
    cluster: str | Cluster | None = field(default=None, metadata=FILE)
    plan: str | Plan | None = None
    replicas: int | None = field(default=None, metadata=within(DEGREE))
    prefill_plan: str | Plan | None = None
    prefill_replicas: int | None = field(default=None, metadata=within(DEGREE))
    decode_plan: str | Plan | None = None
    decode_replicas: int | None = field(default=None, metadata=within(DEGREE))
    requests: str | None = field(default=None, metadata=FILE)
    num_requests: int | None = field(default=None, metadata=within(REQUESTS))
    measure: MeasuredWindow | None = field(default=None, metadata=usually("all"))
    seed: int | None = field(default=None, metadata=usually(0, within=SEED))
    saturated: bool = False
    dtype: str | None = None
    kv_cache_dtype: str | None = None
    framework: str | None = None
    max_sequences: int | None = field(default=None, metadata=within(SEQUENCES))
    max_step_tokens: int | None = field(default=None, metadata=within(STEP_TOKENS))
    chunked_prefill: bool | None = None
    block_tokens: int | None = field(default=None, metadata=within(STEP_TOKENS))
    cuda_graphs: bool | None = None
    max_ttft: str | float | None = None
    max_tpot: str | float | None = None
    max_latency: str | float | None = None
    percentile: float | None = field(default=None, metadata=within(FRACTION))
    method: MethodWord | None = field(default=None, metadata=usually("both"))
    cost_model: str | None = None
    price: str | float | None = field(default=None, metadata=FILE)
    sweep: tuple[str, ...] = ()
    window: str | None = None

    def __post_init__(self) -> None:
        """Plans are held as their texts."""
        for name in _PLANS:
            plan = getattr(self, name)
            if isinstance(plan, Plan):
                values = {**stated_values(plan), "data_parallel": plan.data_parallel}
                if plan.micro_batch_size == 1:
                    del values["micro_batch_size"]
                self.hold(**{name: format_values(values)})
