"""What is asked of a model on one device, or of a rank of a parallel program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfcast.core.dtype import AUTO
from perfcast.core.formats import FORMATS
from perfcast.core.mode import MODES, Mode
from perfcast.core.own_module import OwnModule
from perfcast.core.tensor import MEMORY_FORMATS, MemoryFormat
from perfcast.core.training import OPTIMIZER_IMPLEMENTATIONS
from perfcast.core.tuning.trained import FULL, Tuning
from perfcast.errors import InputError, PlanError, UnknownNameError

if TYPE_CHECKING:
    from perfcast.core.machine.hardware import Device
    from perfcast.cost.model import CostModel

DTYPE_LABELS = (AUTO, "fp32", "tf32", "bf16", "fp16", "fp64")
RECOMPUTE = ("none", "full")
ATTENTION = ("sdpa", "eager")
_MAX_BATCH_SIZE = 10**7
_MAX_SEQUENCE_LENGTH = 10**8
_MAX_IMAGE_SIZE = 10**5


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked of a model on one device.

    Attributes:
        model: Catalog name, a Hugging Face config.json or its folder, ``timm:NAME``, ``FILE.py:FUNCTION``, or
            a module that the user holds, whose inputs then say all sizes.
        mode: 'train' (forward, backward, optimizer), 'prefill' or 'decode'.
        batch_size: Sequences, images or samples of one step, over all micro-batches.
        micro_batch_size: Of one forward; None is the batch size.
        sequence_length: None takes the model's own.
        dtype: Training in bf16 or fp16 is mixed precision with fp32 weights; 'auto' takes what is usual for
            model, mode and device.
        optimizer: 'adamw', 'adam', 'sgd', 'momentum' or 'none'.
        optimizer_implementation: 'fused', 'foreach' or 'loop'; None takes PyTorch's default.
        attention: 'sdpa' (fused) or 'eager'.
        recompute: 'none' or 'full' activation checkpointing.
        compile: Fuse as torch.compile would; the optimizer stays as it is.
        cuda_graphs: Replay the step as one CUDA graph, so that the host launches once.
        host: Processor that issues the kernels, by name; None takes what such machines usually have.
        fold_layers: Capture repeated layers once; the result is the same.
        world_size: Ranks of a parallel FILE.py:FUNCTION, captured as one of them; None says it is not
            parallel. The batch size is then that of the rank.
        rank: Which of them.
        tuning: What trains; by default everything.
        image_size: Height and width of images; None takes the model's own.
        memory_format: In which weights and images lie, 'contiguous' or 'channels_last'.
        autocast: Of inference in bf16 or fp16: fp32 weights, cast by autocast, as a training has them.
    """

    model: str | OwnModule
    mode: Mode = "train"
    batch_size: int = 1
    micro_batch_size: int | None = None
    sequence_length: int | None = None
    dtype: str = AUTO
    optimizer: str = "adamw"
    optimizer_implementation: str | None = None
    attention: str = "sdpa"
    recompute: str = "none"
    compile: bool = False
    cuda_graphs: bool = False
    host: str | None = None
    fold_layers: bool = True
    world_size: int | None = None
    rank: int = 0
    tuning: Tuning = FULL
    image_size: int | None = None
    memory_format: MemoryFormat = "contiguous"
    autocast: bool = False

    def __post_init__(self) -> None:
        if self.dtype not in DTYPE_LABELS and self.dtype in FORMATS:
            raise PlanError(_about_format(self.dtype, self.mode))
        for kind, value, known in (
            ("mode", self.mode, MODES),
            ("dtype", self.dtype, DTYPE_LABELS),
            ("recompute", self.recompute, RECOMPUTE),
            ("attention", self.attention, ATTENTION),
            ("memory format", self.memory_format, MEMORY_FORMATS),
            ("optimizer implementation", self.optimizer_implementation, OPTIMIZER_IMPLEMENTATIONS),
        ):
            if value is not None and value not in known:
                raise UnknownNameError(kind, value, known, f"Known: {', '.join(known)}.")
        self._check_sizes()
        _check_range("batch size", self.batch_size, _MAX_BATCH_SIZE)
        _check_range("micro-batch size", self.micro_batch_size, self.batch_size)
        _check_range("sequence length", self.sequence_length, _MAX_SEQUENCE_LENGTH)
        _check_range("image size", self.image_size, _MAX_IMAGE_SIZE)
        self._check_ranks()
        self._check_autocast()
        if self.mode != "train" and not self.tuning.is_full:
            raise PlanError(f"what is tuned has no effect in {self.mode}: it is of a training")
        if self.mode != "train" and self.recompute != "none":
            raise PlanError(
                f"recompute={self.recompute} has no effect: it is of a training, not of {self.mode}"
            )
        if self.mode == "decode" and self.sequence_length == 1:
            raise PlanError("decode needs a context: --sequence-length of at least 2")
        if self.batch_size % (self.micro_batch_size or self.batch_size):
            raise PlanError(
                f"batch size {self.batch_size} is not a multiple of the "
                f"micro-batch size {self.micro_batch_size}"
            )

    @property
    def title(self) -> str:
        """What answers call the model."""
        return self.model if isinstance(self.model, str) else self.model.title

    def _check_ranks(self) -> None:
        if self.world_size is None:
            if self.rank:
                raise PlanError(f"rank {self.rank} of how many? give --world-size")
            return
        if not isinstance(self.model, str) or ".py:" not in self.model:
            raise PlanError(
                f"--world-size runs a parallel FILE.py:FUNCTION of your own; {self.title} takes --plan"
            )
        if not 0 <= self.rank < self.world_size:
            raise PlanError(f"rank {self.rank} is not one of 0 … {self.world_size - 1}")

    def _check_sizes(self) -> None:
        if isinstance(self.model, str):
            return
        given = {
            "batch size": self.batch_size != 1,
            "micro-batch size": self.micro_batch_size is not None,
            "sequence length": self.sequence_length is not None,
            "image size": self.image_size is not None,
        }
        said = [name for name, is_given in given.items() if is_given]
        if said:
            raise PlanError(f"{', '.join(said)}: the inputs of {self.title} say that by their shapes")

    def _check_autocast(self) -> None:
        if self.autocast and self.mode == "train":
            raise PlanError("autocast has no effect: a training in bf16 or fp16 is in mixed precision anyway")
        if self.autocast and self.dtype not in ("bf16", "fp16"):
            raise PlanError(f"autocast casts to bf16 or fp16, not to {self.dtype}: give its dtype")

    @property
    def num_micro_batches(self) -> int:
        """Forwards and backwards of one step."""
        return self.batch_size // (self.micro_batch_size or self.batch_size)


@dataclass(frozen=True, kw_only=True)
class OneDeviceRequest:
    """One step of a captured model on one device, and by which prices.

    Attributes:
        workload: What the device runs.
        device: Catalog name, ``FILE.toml``, 'cpu', or a Device.
        cost_model: 'learned', 'roofline' or 'linear', or an object that prices operations; None: 'learned',
            for the local processor 'linear'.
        framework: Whose program runs: 'pytorch', the model's own modules, or a framework that trains or
            serves; None: what is usual for model and mode.
        weights: Folder of trained models, for 'learned'; None: the shipped ones.
    """

    workload: Request
    device: str | Device
    cost_model: str | CostModel | None = None
    framework: str | None = None
    weights: str | None = None


def _about_format(dtype: str, mode: Mode) -> str:
    """Whose kernels a format takes that the model's own modules do not have."""
    whose = "megatron, or fsdp (torchao)" if mode == "train" else "vllm, sglang or trtllm"
    own = ", ".join(name for name in DTYPE_LABELS if name != AUTO)
    return f"dtype {dtype}: the model's own modules run in {own}; take --framework {whose}"


def _check_range(what: str, value: int | None, largest: int) -> None:
    if value is not None and not 1 <= value <= largest:
        raise InputError(f"{what} {value} is not between 1 and {largest}")
