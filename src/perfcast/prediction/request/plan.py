"""What is asked of a model under a plan on a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfcast.core.dtype import AUTO
from perfcast.core.mode import METHODS, MODES, Method, Mode
from perfcast.core.plan import Plan
from perfcast.core.tensor import MEMORY_FORMATS, MemoryFormat
from perfcast.core.words import known_word
from perfcast.errors import PlanError

if TYPE_CHECKING:
    from perfcast.core.machine.cluster import Cluster
    from perfcast.core.training import Training
    from perfcast.cost.model import CostModel
    from perfcast.prediction.model import Model
    from perfcast.prediction.step.constants import StepConstants
    from perfcast.simulate.stragglers import Slowdowns


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """One step of a model under a plan on a cluster.

    Attributes:
        model: Catalog name, a Hugging Face config.json or its folder, ``timm:NAME``,
            ``FILE.py:FUNCTION``, the sizes of a transformer, or a model read before.
        cluster: Catalog name with ``:N`` for its devices, a file of your own, or the cluster itself; it has
            exactly the plan's devices.
        mode: 'train', 'prefill' or 'decode' (the sequence is then what the cache holds).
        recompute_is_open: Whether the plan leaves open what is recomputed: then as little as fits, unless the
            model is captured.
        training: Precision, optimizer and framework; None: AdamW in ``dtype`` by the framework that
            ``default_framework`` names, for a captured model PyTorch.
        dtype: Where ``training`` does not say; of inference, of weights; 'auto' takes what is usual for
            model, mode and device.
        kv_cache_dtype: Of keys and values; None or 'auto': what the framework keeps beside ``dtype``.
        framework: Whose program runs, where ``training`` does not say; None: what is usual for model, mode
            and plan.
        compiles: Whether torch.compile fuses what runs, where ``training`` does not say.
        sequence_length: None takes the model's own.
        image_size: Height and width of images, of a captured model; None takes the model's own.
        memory_format: Of a captured model: in which weights and images lie.
        cost_model: 'learned' (default), 'roofline', or an object that prices operations.
        method: 'simulated', event by event, or 'closed_form', formulas of the pipeline.
        stragglers: How ranks differ in speed; None: not at all.
        with_spans: Whether to keep the timeline (simulated only).
        recommendations: Whether to ask what would help.
        memory: Whether to forecast memory too.
        constants: Of the step as a whole; None: the shipped ones.
        notes: What was chosen before, for the assumptions.
        defaults: Precision and sequence that were chosen before, in words.
    """

    model: Model
    cluster: str | Cluster
    plan: Plan
    recompute_is_open: bool = False
    mode: Mode = "train"
    training: Training | None = None
    dtype: str = AUTO
    kv_cache_dtype: str | None = None
    framework: str | None = None
    compiles: bool = False
    sequence_length: int | None = None
    image_size: int | None = None
    memory_format: MemoryFormat = "contiguous"
    cost_model: str | CostModel | None = None
    method: Method = "simulated"
    stragglers: Slowdowns | None = None
    with_spans: bool = False
    recommendations: bool = True
    memory: bool = True
    constants: StepConstants | None = None
    notes: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known_word("mode", self.mode, MODES)
        known_word("method", self.method, METHODS)
        known_word("memory format", self.memory_format, MEMORY_FORMATS)
        if self.sequence_length is not None and self.sequence_length < 1:
            raise PlanError(f"sequence length {self.sequence_length}: must be at least 1")
