"""MODEL and what is done with it, as the questions about one step say it."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from perfcast.core.dtype import AUTO
from perfcast.core.machine.hardware import Device
from perfcast.core.mode import MODES, Mode
from perfcast.core.own_module import OwnModule, is_module
from perfcast.core.plan import Plan
from perfcast.core.plans.choice import complete_plan, is_one_device, stated_micro_batch_size
from perfcast.core.plans.text import PlanValues, format_plan, format_values, parse_plan
from perfcast.core.precision import spelled_dtype
from perfcast.core.tensor import MEMORY_FORMATS, MemoryFormat
from perfcast.core.training import FRAMEWORKS
from perfcast.core.words import known_word
from perfcast.errors import PlanError, QuestionError
from perfcast.ranges import BATCH, DEVICES, PIXELS, TOKENS_OF_SEQUENCE
from perfcast.verbs.question import FILE, IN_PYTHON, Question, usually, within
from perfcast.verbs.shared.tuning import TuningQuestion

if TYPE_CHECKING:
    from perfcast.core.training import Training
    from perfcast.prediction.request.one_device import Request

#: Of the model's own modules alone.
_OF_MODULES = ("fp64",)


@dataclass(frozen=True)
class _Subject(Question):
    """What a step is of, and where it runs: the fields that go without their names in Python.

    Attributes:
        model: A catalog name, a Hugging Face config.json or its folder, timm:NAME, or FILE.py:FUNCTION; in
            Python also a module that you hold, followed by its inputs.
        device: Catalog name, FILE.toml, or 'cpu' (this machine).
    """

    arguments: ClassVar[tuple[str, ...]] = ("model",)

    model: str | OwnModule = field(metadata=FILE)
    device: str | Device | None = field(default=None, metadata=FILE)

    @classmethod
    def arranged(cls, given: tuple[object, ...]) -> tuple[tuple[object, ...], dict[str, object]]:
        """``(module, inputs, device)``: inputs of a module go before the device."""
        if len(given) < 2 or not is_module(given[0]) or isinstance(given[1], str | Device):
            return given, {}
        return (given[0], *given[2:]), {"inputs": given[1]}


@dataclass(frozen=True, kw_only=True)
class StepQuestion(TuningQuestion, _Subject):
    """MODEL and everything that says what is done with it.

    Attributes:
        devices: Number of devices.
        plan: Comma-separated keys, for example recompute=full.
        mode: train, prefill or decode.
        batch_size: Sequences or samples, over all devices; default: 1; under a plan, enough to fill it.
        micro_batch_size: Of one forward; default: a replica's batch; in a pipeline 1.
        sequence_length: Tokens; default: the model's own, at most 8,192.
        dtype: fp32, tf32, bf16, fp16 or fp64; fp8 for plans; of inference by a framework's kernels also
            fp8_block, mxfp8, nvfp4, mxfp4, int8, int8_wo, int4_wo, …; default: of a training mixed
            precision, of inference what the model's config says.
        kv_cache_dtype: Of inference, keys and values: auto (what the framework keeps), bf16, fp16, fp8, int8,
            nvfp4.
        optimizer: adamw, adam, sgd, momentum, none; adamw_8bit, adafactor, muon for plans.
        optimizer_implementation: fused, foreach or loop; default: PyTorch's.
        attention: sdpa (fused) or eager.
        compile: Fuse kernels as torch.compile would (GPUs).
        image_size: Height and width of images; default: the model's own.
        memory_format: In which weights and images lie, of models that take images.
        autocast: Inference in bf16 or fp16 with fp32 weights, under autocast.
        inputs: Of a module that is given as the model: a tensor, a tuple of positional or a dict of keyword
            arguments; of tensors only shapes and types count.
        loss: Of such a module: output → scalar; default: the output's own, else the sum of its first tensor.
        recompute: The plan's key of that name by itself, from Python: none or full.
    """

    devices: int | None = field(default=None, metadata=usually(1, within=DEVICES))
    plan: str | Plan | None = field(default=None, metadata=usually(""))
    mode: Mode | None = field(default=None, metadata=usually("train"))
    batch_size: int | None = field(default=None, metadata=within(BATCH))
    micro_batch_size: int | None = field(default=None, metadata=within(BATCH))
    sequence_length: int | None = field(default=None, metadata=within(TOKENS_OF_SEQUENCE))
    dtype: str | None = None
    kv_cache_dtype: str | None = None
    optimizer: str | None = field(default=None, metadata=usually("adamw"))
    optimizer_implementation: str | None = None
    attention: str | None = field(default=None, metadata=usually("sdpa"))
    compile: bool = False
    image_size: int | None = field(default=None, metadata=within(PIXELS))
    memory_format: MemoryFormat | None = field(default=None, metadata=usually(MEMORY_FORMATS[0]))
    autocast: bool = False
    inputs: object = field(default=None, metadata=IN_PYTHON)
    loss: object = field(default=None, metadata=IN_PYTHON)
    recompute: InitVar[str | None] = None

    def __post_init__(self, recompute: str | None) -> None:
        """A Plan is held as its text, with the batch and the devices that it has; a module with its inputs.

        Raises:
            QuestionError: A module without inputs, or inputs without a module.
        """
        if is_module(self.model):
            if self.inputs is None:
                raise QuestionError("inputs: a module is asked about with the arguments of one call")
            self.hold(model=OwnModule(self.model, self.inputs, self.loss), inputs=None, loss=None)
        elif self.inputs is not None or self.loss is not None:
            raise QuestionError("inputs, loss: of a module that is given as the model")
        if isinstance(self.plan, Plan):
            of_plan = {
                "batch_size": self.plan.global_batch_size,
                "devices": self.plan.ranks_per_stage * self.plan.pipeline_parallel,
            }
            values = parse_plan(format_plan(self.plan))
            self.hold(plan=format_values({"recompute": "none", **values}))
            self.hold(**{name: value for name, value in of_plan.items() if getattr(self, name) is None})
        if recompute is not None:
            stated = parse_plan(f"recompute={recompute}")
            self.hold(plan=format_values({**parse_plan(self.text("plan")), **stated}))

    @cached_property
    def plan_values(self) -> PlanValues:
        """What the plan's text says, by the fields of ``Plan``."""
        return parse_plan(self.text("plan"))

    @property
    def step_mode(self) -> Mode:
        """What the step does."""
        return known_word("mode", self.text("mode"), MODES)

    @property
    def num_devices(self) -> int:
        """1 where no number is given."""
        return self.count("devices")

    @property
    def device_name(self) -> str | None:
        """Of the device, however it was given."""
        return self.device.name if isinstance(self.device, Device) else self.device

    @property
    def format(self) -> str | None:
        """The dtype's name, however it is spelled; None: what is usual."""
        return self.dtype if self.dtype in _OF_MODULES else format_of(self.dtype)

    @property
    def layout(self) -> MemoryFormat:
        """In which weights and images lie."""
        return known_word("memory format", self.text("memory_format"), MEMORY_FORMATS)

    @property
    def is_of_one_device(self) -> bool:
        """Whether nothing asks for several."""
        return is_one_device(self.plan_values, self.num_devices)

    def check(self) -> None:
        """Raise where something that was said has no effect, or cannot be read.

        Raises:
            InputError: Names what.
        """
        mode = self.step_mode
        given = self.said(("optimizer", "optimizer_implementation")) if mode != "train" else ()
        if given:
            raise PlanError(f"{', '.join(given)}: of a training; --mode {mode} has no optimizer")
        if self.is_of_one_device:
            complete_plan(self.plan_values, 1, mode=mode)
        _ = self.format, self.layout
        self.tuning(mode)


def format_of(text: str | None) -> str | None:
    """A format's name, however it is spelled; nothing, and 'auto', stay nothing."""
    return None if text in (None, AUTO) else spelled_dtype(text)


def device_request(asked: StepQuestion, *, world_size: int | None = None, rank: int = 0) -> Request:
    """What is asked of the model on one device, or of a rank of a parallel program.

    Raises:
        PlanError: A plan over several devices.
        InputError: Values that no step can have.
    """
    from perfcast.prediction.request.one_device import Request

    several = asked.num_devices != 1 and world_size is None
    if several or not is_one_device(asked.plan_values):
        plan = format_values(asked.plan_values)
        raise PlanError(
            f"--devices {asked.num_devices}{f' --plan {plan}' if plan else ''}: this is of one device"
        )
    return Request(
        model=asked.model,
        mode=asked.step_mode,
        batch_size=1 if asked.batch_size is None else asked.batch_size,
        micro_batch_size=stated_micro_batch_size(asked.plan_values, asked.micro_batch_size),
        sequence_length=asked.sequence_length,
        dtype=asked.format or AUTO,
        optimizer=asked.text("optimizer"),
        optimizer_implementation=asked.optimizer_implementation,
        attention=asked.text("attention"),
        recompute=str(asked.plan_values.get("recompute", "none")),
        compile=asked.compile,
        world_size=world_size,
        rank=rank,
        tuning=asked.tuning(asked.step_mode),
        image_size=asked.image_size,
        memory_format=asked.layout,
        autocast=asked.autocast,
    )


def training_of(asked: StepQuestion, framework: str, dtype: str) -> Training:
    """How the step trains under a plan.

    Raises:
        UnknownNameError: A word that no training has.
    """
    from perfcast.core.training import DTYPES, OPTIMIZERS, Training
    from perfcast.prediction.route import attention_kernels

    return Training(
        dtype=known_word("dtype", dtype, DTYPES),
        optimizer=known_word("optimizer", asked.text("optimizer"), OPTIMIZERS),
        framework=known_word("framework", framework, FRAMEWORKS),
        attention=attention_kernels(asked.text("attention")),
        compiles=asked.compile,
        tuning=asked.tuning(asked.step_mode),
    )
