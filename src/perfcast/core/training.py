"""How numbers are kept while a model trains, and by whose program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from perfcast.core.model.transformer import Transformer
from perfcast.core.precision import Precision, training_precision
from perfcast.core.tuning.trained import FULL, Tuning
from perfcast.core.words import known_word
from perfcast.errors import ModelError, PlanError

TrainingDType = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "fp8_block", "mxfp8", "nvfp4"]
Optimizer = Literal["none", "sgd", "momentum", "adam", "adamw", "adamw_8bit", "adafactor", "muon"]
#: How PyTorch runs an optimizer: one kernel for all, kernels over lists of tensors, or tensor by tensor.
OptimizerImplementation = Literal["fused", "foreach", "loop"]
TrainingFramework = Literal[
    "pytorch",
    "fsdp",
    "torchtitan",
    "megatron",
    "nemo",
    "megatron_local",
    "hai_llm",
    "nanotron",
    "deepspeed",
]
AttentionKernels = Literal["flash", "math"]
FlashVersion = Literal[1, 2, 3]

DTYPES: tuple[TrainingDType, ...] = get_args(TrainingDType)
OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)
OPTIMIZER_IMPLEMENTATIONS: tuple[OptimizerImplementation, ...] = get_args(OptimizerImplementation)
FRAMEWORKS: tuple[TrainingFramework, ...] = get_args(TrainingFramework)
ATTENTION: tuple[AttentionKernels, ...] = get_args(AttentionKernels)
FLASH_VERSIONS: tuple[FlashVersion, ...] = get_args(FlashVersion)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Precision, optimizer and program of a training.

    Attributes:
        dtype: Of the products; 'fp8' (by tensor), 'fp8_block', 'mxfp8' and 'nvfp4' compute those of layers in
            that format between bf16 tensors.
        optimizer: Its state is kept per parameter ('adamw': two fp32 moments; 'adamw_8bit': two of one
            byte and their scales; 'adafactor': rows and columns; 'muon': one momentum).
        framework: Whose program trains: 'pytorch' (autocast with fp32 weights, gradients of their own
            dtype), 'fsdp' (PyTorch's FSDP2 with mixed precision), 'torchtitan' (FSDP2 as it sets it),
            'megatron' (Megatron-LM with Transformer Engine), 'nemo' (the same with gradients in bf16, as
            NVIDIA's recipes set it), 'megatron_local' (without Transformer Engine), 'hai_llm'
            (DeepSeek's, as its report tells), 'nanotron', 'deepspeed'.
        attention: 'flash' keeps a row statistic, 'math' keeps the matrix of scores.
        fuses_cross_entropy: Whether loss and its gradient are one kernel in the products' dtype.
        flash_version: Of 'flash', the generation of its kernels (``FLASH_VERSIONS``); None: that which
            the framework calls, else the newest that the device has.
        compiles: Whether torch.compile fuses what the framework leaves to PyTorch.
        tuning: What of the model trains: everything, or adapters beside it.
    """

    dtype: TrainingDType = "bf16"
    optimizer: Optimizer = "adamw"
    framework: TrainingFramework = "pytorch"
    attention: AttentionKernels = "flash"
    fuses_cross_entropy: bool = False
    flash_version: FlashVersion | None = None
    compiles: bool = False
    tuning: Tuning = FULL

    @property
    def precision(self) -> Precision:
        """How products, activations and what is not quantised are kept."""
        return training_precision(self.dtype)

    def __post_init__(self) -> None:
        known_word("dtype", self.dtype, DTYPES)
        known_word("optimizer", self.optimizer, OPTIMIZERS)
        known_word("framework", self.framework, FRAMEWORKS)
        known_word("attention", self.attention, ATTENTION)
        if self.flash_version not in (None, *FLASH_VERSIONS):
            raise PlanError(f"flash attention {self.flash_version}: its versions are 1, 2 and 3")


def check_trainable(model: Transformer) -> None:
    """Whether a training of the model is described.

    Raises:
        ModelError: It is not; the message names the part of its layers that is missing.
    """
    missing = (
        (model.linear_attention is not None, "linear attention (a gated delta rule)"),
        (model.sparse_attention is not None, "attention to tokens that an indexer picks"),
        (model.has_attention_gate, "the gate of attention's output"),
        (model.has_attention_sinks, "sinks of attention"),
        (model.joins_head_norms, "norms over all heads of queries and keys"),
        (model.experts is not None and model.experts.has_bias, "biases of experts"),
    )
    parts = [name for is_there, name in missing if is_there]
    if parts:
        raise ModelError(
            f"a training with {' and '.join(parts)} is not described: backward and saved tensors are missing;"
            " prefill and decode are (--mode)"
        )
