"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from perfcast.cli.options.given import is_given
from perfcast.cli.options.pack import Command, packed
from perfcast.cli.options.tuning import TUNING_OPTIONS, TuningOptions
from perfcast.core.dtype import AUTO
from perfcast.core.mode import MODES, MOST_TOKENS, Mode
from perfcast.core.plans.choice import complete_plan, is_one_device, stated_micro_batch_size
from perfcast.core.plans.text import PlanValues, format_values, parse_plan
from perfcast.core.precision import spelled_dtype
from perfcast.core.tensor import MEMORY_FORMATS, MemoryFormat
from perfcast.core.training import FRAMEWORKS
from perfcast.core.words import known_word
from perfcast.errors import PlanError

if TYPE_CHECKING:
    from perfcast.core.training import Training
    from perfcast.prediction.request.one_device import Request

SEQUENCE_HELP = f"Tokens; default: the model's own, at most {MOST_TOKENS:,}."


@dataclass(frozen=True, kw_only=True)
class StepOptions(TuningOptions):
    """MODEL and everything that says what is done with it, as the options give it.

    Attributes:
        devices: 1 where no number is given.
        plan: What ``--plan`` says, by the fields of ``Plan``.
    """

    model: str
    device: str | None
    devices: int
    plan: PlanValues
    mode: Mode
    batch_size: int | None
    micro_batch_size: int | None
    sequence_length: int | None
    dtype: str | None
    kv_cache_dtype: str | None
    optimizer: str
    optimizer_implementation: str | None
    attention: str
    compile: bool
    image_size: int | None
    memory_format: MemoryFormat
    autocast: bool

    def __post_init__(self) -> None:
        """Raises PlanError where something that was said has no effect."""
        if self.mode != "train":
            of_training = ("optimizer", "optimizer_implementation")
            given = [f"--{name.replace('_', '-')}" for name in of_training if is_given(name)]
            if given:
                raise PlanError(f"{', '.join(given)}: of a training; --mode {self.mode} has no optimizer")
        if self.is_of_one_device:
            complete_plan(self.plan, 1, mode=self.mode)

    @property
    def is_of_one_device(self) -> bool:
        """Whether nothing asks for several."""
        return is_one_device(self.plan, self.devices)


#: Of the model's own modules alone.
_OF_MODULES = ("fp64",)


def step_options(*, requires_device: bool) -> Callable[[Command], Command]:
    """MODEL and everything that says what is done with it, as a ``StepOptions`` under 'step'."""
    return packed(StepOptions, "step", *_step_options(requires_device))


def _step_options(requires_device: bool) -> tuple[Callable[[Command], Command], ...]:
    return (
        click.argument("model"),
        click.option(
            "--device", required=requires_device, help="Catalog name, FILE.toml, or 'cpu' (this machine)."
        ),
        click.option("--devices", type=int, default=1, show_default=True, help="Number of devices."),
        click.option(
            "--plan",
            default="",
            callback=_plan_values,
            help="Comma-separated keys, for example recompute=full.",
        ),
        click.option(
            "--mode", default="train", show_default=True, callback=_mode, help="train, prefill or decode."
        ),
        click.option(
            "--batch-size",
            type=int,
            help="Sequences or samples, over all devices; default: 1; under a plan, enough to fill it.",
        ),
        click.option(
            "--micro-batch-size",
            type=int,
            help="Of one forward; default: a replica's batch; in a pipeline 1.",
        ),
        click.option("--sequence-length", type=int, help=SEQUENCE_HELP),
        click.option(
            "--dtype",
            callback=_dtype_of,
            help="fp32, tf32, bf16, fp16 or fp64; fp8 for plans; of inference by a framework's kernels also "
            "fp8_block, mxfp8, nvfp4, mxfp4, int8, int8_wo, int4_wo, …; default: of a training mixed "
            "precision, of inference what the model's config says.",
        ),
        kv_cache_option(),
        click.option(
            "--optimizer",
            default="adamw",
            show_default=True,
            help="adamw, adam, sgd, momentum, none; adamw_8bit, adafactor, muon for plans.",
        ),
        click.option("--optimizer-implementation", help="fused, foreach or loop; default: PyTorch's."),
        click.option("--attention", default="sdpa", show_default=True, help="sdpa (fused) or eager."),
        click.option("--compile", is_flag=True, help="Fuse kernels as torch.compile would (GPUs)."),
        click.option("--image-size", type=int, help="Height and width of images; default: the model's own."),
        click.option(
            "--memory-format",
            type=click.Choice(MEMORY_FORMATS),
            default=MEMORY_FORMATS[0],
            show_default=True,
            help="In which weights and images lie, of models that take images.",
        ),
        click.option(
            "--autocast", is_flag=True, help="Inference in bf16 or fp16 with fp32 weights, under autocast."
        ),
        *TUNING_OPTIONS,
    )


def format_option() -> Callable[[Command], Command]:
    """The format of products, of verbs that weigh many plans."""
    return click.option(
        "--dtype",
        callback=format_of,
        help="bf16, fp16, fp32, fp8; of inference fp8_block, mxfp8, nvfp4, mxfp4, int8, int8_wo, int4_wo, …; "
        "default: of a training mixed precision, of inference what the model's config says.",
    )


def framework_option() -> Callable[[Command], Command]:
    """Whose program runs."""
    return click.option(
        "--framework",
        help=f"Whose program trains: {', '.join(FRAMEWORKS)}; or answers: vllm, sglang, trtllm, pytorch.",
    )


def kv_cache_option() -> Callable[[Command], Command]:
    """In which format keys and values are kept."""
    return click.option(
        "--kv-cache-dtype",
        metavar="FORMAT",
        help="Of inference, keys and values: auto (what the framework keeps), bf16, fp16, fp8, int8, nvfp4.",
    )


def format_of(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """A format's name, however it is spelled; nothing, and 'auto', stay nothing."""
    return None if text in (None, AUTO) else spelled_dtype(text)


def _dtype_of(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """The same where a captured program may also compute in fp64."""
    return text if text in _OF_MODULES else format_of(context, option, text)


def _plan_values(_: click.Context, __: click.Parameter, text: str) -> PlanValues:
    return parse_plan(text)


def _mode(_: click.Context, __: click.Parameter, text: str) -> Mode:
    return known_word("mode", text, MODES)


def device_request(step: StepOptions, *, world_size: int | None = None, rank: int = 0) -> Request:
    """What is asked of the model on one device, or of a rank of a parallel program.

    Raises:
        PlanError: A plan over several devices.
        InputError: Values that no step can have.
    """
    from perfcast.prediction.request.one_device import Request

    if not step.is_of_one_device:
        plan = format_values(step.plan)
        raise PlanError(f"--devices {step.devices}{f' --plan {plan}' if plan else ''}: this is of one device")
    return Request(
        model=step.model,
        mode=step.mode,
        batch_size=1 if step.batch_size is None else step.batch_size,
        micro_batch_size=stated_micro_batch_size(step.plan, step.micro_batch_size),
        sequence_length=step.sequence_length,
        dtype=step.dtype or AUTO,
        optimizer=step.optimizer,
        optimizer_implementation=step.optimizer_implementation,
        attention=step.attention,
        recompute=str(step.plan.get("recompute", "none")),
        compile=step.compile,
        world_size=world_size,
        rank=rank,
        tuning=step.tuning(step.mode),
        image_size=step.image_size,
        memory_format=step.memory_format,
        autocast=step.autocast,
    )


def training_of(step: StepOptions, framework: str, dtype: str) -> Training:
    """How the step trains under a plan.

    Raises:
        UnknownNameError: A word that no training has.
    """
    from perfcast.core.training import DTYPES, OPTIMIZERS, Training
    from perfcast.prediction.route import attention_kernels

    return Training(
        dtype=known_word("dtype", dtype, DTYPES),
        optimizer=known_word("optimizer", step.optimizer, OPTIMIZERS),
        framework=known_word("framework", framework, FRAMEWORKS),
        attention=attention_kernels(step.attention),
        compiles=step.compile,
        tuning=step.tuning(step.mode),
    )
