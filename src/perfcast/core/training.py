"""How numbers are kept while a model trains, and by whose program."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.errors import PlanError, UnknownNameError

DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8")
OPTIMIZERS = ("none", "sgd", "momentum", "adam", "adamw", "adamw_8bit", "adafactor", "muon")
FRAMEWORKS = ("pytorch", "fsdp", "megatron", "megatron_local", "nanotron", "deepspeed")
ATTENTION = ("flash", "math")
FLASH_VERSIONS = (1, 2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Precision, optimizer and program of a training.

    Attributes:
        dtype: Of the products; 'fp8' computes products in fp8 between bf16 tensors.
        optimizer: Its state is kept per parameter ('adamw': two fp32 moments; 'adamw_8bit': two of one
            byte and their scales; 'adafactor': rows and columns; 'muon': one momentum).
        framework: Whose habits apply: 'pytorch' (autocast with fp32 weights, gradients of their own
            dtype), 'fsdp' (PyTorch's FSDP2 with mixed precision), 'megatron' (Megatron-LM with
            Transformer Engine), 'nanotron', 'deepspeed'.
        attention: 'flash' keeps a row statistic, 'math' keeps the matrix of scores.
        fuses_cross_entropy: Whether loss and its gradient are one kernel in the products' dtype.
        flash_version: Of 'flash', the generation of its kernels (``FLASH_VERSIONS``); None: the newest that
            the device has.
    """

    dtype: str = "bf16"
    optimizer: str = "adamw"
    framework: str = "pytorch"
    attention: str = "flash"
    fuses_cross_entropy: bool = False
    flash_version: int | None = None

    def __post_init__(self) -> None:
        for kind, value, known in (
            ("dtype", self.dtype, DTYPES),
            ("optimizer", self.optimizer, OPTIMIZERS),
            ("framework", self.framework, FRAMEWORKS),
            ("attention", self.attention, ATTENTION),
        ):
            if value not in known:
                raise UnknownNameError(kind, value, known, f"Known: {', '.join(known)}.")
        if self.flash_version not in (None, *FLASH_VERSIONS):
            raise PlanError(f"flash attention {self.flash_version}: its versions are 1, 2 and 3")
