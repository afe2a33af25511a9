"""What ``perfcast scale`` is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal, get_args

from perfcast.core.plans.text import PlanValues, parse_plan
from perfcast.core.words import known_word
from perfcast.ranges import BATCH, DEVICES, TOKENS_OF_SEQUENCE
from perfcast.verbs.question import FILE, PLACE, Question, each, usually, within
from perfcast.verbs.shared.tuning import TuningQuestion
from perfcast.verbs.shared.values import split_names

#: A training, or what is forecast of inference: prompts, answers, or both.
ScaledMode = Literal["train", "prefill", "decode", "serve"]
SCALED_MODES: tuple[ScaledMode, ...] = get_args(ScaledMode)


@dataclass(frozen=True)
class _Scaled(Question):
    """What is scaled: the field that goes without its name in Python.

    Attributes:
        model: A catalog name, or a Hugging Face config.json or its folder.
    """

    arguments: ClassVar[tuple[str, ...]] = ("model",)

    model: str | None = field(default=None, metadata=FILE)


@dataclass(frozen=True, kw_only=True)
class ScaleQuestion(TuningQuestion, _Scaled):
    """What becomes of a training step on more and more devices, or of inference with more sequences and
    longer contexts; with ``limits``, how far a training run can scale.

    Attributes:
        cluster: Or several, A,B: one chart.
        devices: Such as 8,64,512; inference takes one number.
        plan: tp=8,pp=4,…; dp follows. Default: the smallest tp · pp that fits, and of inference the fewest
            devices where none are named.
        weak: The batch grows with devices; else it stays.
        batch_size: Sequences of a step; with --weak of the fewest devices.
        micro_batch_size: Of one forward; default: 1.
        sequence_length: Tokens; default: the model's own, at most 8,192.
        mode: train, prefill, decode or serve (both, of a standing batch; under load: 'perfcast serving').
        batch_sizes: Of inference: sequences that are answered at once; default: 1,8,64 of each replica.
        contexts: Of inference: tokens of a prompt, and of the cache; default: as of every verb.
        dtype: bf16, fp16, fp32, fp8; of inference fp8_block, mxfp8, nvfp4, mxfp4, int8, int8_wo, int4_wo, …;
            default: of a training mixed precision, of inference what the model's config says.
        kv_cache_dtype: Of inference, keys and values: auto (what the framework keeps), bf16, fp16, fp8, int8,
            nvfp4.
        framework: Whose program trains: pytorch, fsdp, torchtitan, megatron, nemo, megatron_local, hai_llm,
            nanotron, deepspeed; or answers: vllm, sglang, trtllm, pytorch.
        compile: Of training: fuse kernels as torch.compile would.
        cost_model: learned (default), roofline, or a published one.
        simulate: Event by event; default: closed forms.
        limits: How far a training run on H100s can scale (arXiv 2411.01137).
        assume: A free variable of --limits.
        data: Holds the published curve of --limits, shown beside ours.
    """

    verb: ClassVar[str] = "scale"

    cluster: tuple[str, ...] | str = field(default=(), metadata=FILE)
    devices: tuple[int, ...] | int = field(default=(), metadata=within(DEVICES))
    plan: str | None = field(default=None, metadata=usually(""))
    weak: bool = False
    batch_size: int | None = field(default=None, metadata=within(BATCH))
    micro_batch_size: int | None = field(default=None, metadata=within(BATCH))
    sequence_length: int | None = field(default=None, metadata=within(TOKENS_OF_SEQUENCE))
    mode: ScaledMode | None = field(default=None, metadata=usually("train"))
    batch_sizes: tuple[int, ...] | int = field(default=(), metadata=within(BATCH))
    contexts: tuple[int, ...] | int = field(default=(), metadata=within(TOKENS_OF_SEQUENCE))
    dtype: str | None = None
    kv_cache_dtype: str | None = None
    framework: str | None = None
    compile: bool = False
    cost_model: str | None = None
    simulate: bool = False
    limits: bool = False
    assume: tuple[str, ...] | str = ()
    data: str | None = field(default=None, metadata=PLACE)

    @cached_property
    def clusters(self) -> tuple[str, ...]:
        """Names, each once."""
        names = each(self.cluster)
        return split_names("--cluster", names) if names else ()

    @cached_property
    def plan_values(self) -> PlanValues:
        """What the plan's text says, by the fields of ``Plan``."""
        return parse_plan(self.text("plan"))

    @property
    def scaled_mode(self) -> ScaledMode:
        """A training, or what is forecast of inference."""
        return known_word("mode", self.text("mode"), SCALED_MODES)
