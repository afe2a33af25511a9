"""A request under a plan, all its names resolved: model, cluster, device, training, prices and timer."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.dtype import DType
from perfcast.core.formats import arithmetic_of
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.mode import Mode
from perfcast.core.plan import Plan
from perfcast.core.plans.idle import refuse_idle
from perfcast.core.precision import Precision, check_device, on_device
from perfcast.core.program import StepProgram
from perfcast.core.tensor import MemoryFormat
from perfcast.core.training import Training
from perfcast.cost.learned.model import LearnedCost
from perfcast.cost.model import CostModel
from perfcast.errors import PlanError
from perfcast.frameworks.precision import check_training_format, refuse_cache_of_training, serving_precision
from perfcast.prediction.defaults import choose_defaults
from perfcast.prediction.model import NamedModel, read_model
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.plan.recomputation import least_recomputation
from perfcast.prediction.program import program_of, training_by
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.step.constants import load_step_constants
from perfcast.prediction.step.timer import Timer, make_timer


@dataclass(frozen=True, kw_only=True)
class ResolvedStep:
    """A step under a plan as it is planned, priced and timed.

    Attributes:
        training: None for inference.
        dtype: Of the products.
        precision: Of inference: products, activations, cache; None for training.
        notes: What was chosen for the user, in words.
        sequence_length: Of a sequence; for decode what the cache holds. None: a captured program's own.
        program: What runs.
        defaults: What was chosen of precision and sequence, in words.
        image_size: Of a captured model's images; None: its own.
        memory_format: In which a captured model's weights and images lie.
    """

    model: NamedModel
    cluster: Cluster
    device: Device
    plan: Plan
    mode: Mode
    training: Training | None
    dtype: str
    precision: Precision | None
    sequence_length: int | None
    cost_model: CostModel
    timer: Timer
    program: StepProgram
    defaults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    image_size: int | None = None
    memory_format: MemoryFormat = "contiguous"

    @property
    def arithmetic(self) -> DType:
        """What multiplies in the step's products."""
        return arithmetic_of(self.dtype) if self.precision is None else self.precision.arithmetic


def resolve_step(request: PlanRequest) -> ResolvedStep:
    """Names to data.

    Raises:
        InputError: An unknown name, no sequence length, a plan of other devices than the cluster's, or of
            which something has no effect.
    """
    cluster = load_cluster(request.cluster) if isinstance(request.cluster, str) else request.cluster
    check_devices(request.plan, cluster)
    device = resolve_device(cluster.device)
    model = read_model(request.model)
    chosen = choose_defaults(
        model,
        request.mode,
        device,
        dtype=request.dtype if request.training is None else request.training.dtype,
        sequence_length=request.sequence_length,
    )
    program = program_of(request, model, device)
    _check_images(request, program)
    training, precision, kernels = training_by(program, request, chosen.dtype), None, None
    if training is None:
        kernels = program.framework
        precision = on_device(serving_precision(chosen.dtype, kernels, request.kv_cache_dtype), device)
    else:
        refuse_cache_of_training(request.kv_cache_dtype)
        check_training_format(training)
    dtype = chosen.dtype if precision is None else precision.name
    refuse_idle(request.plan, mode=request.mode, model=model.sizes if model.has_sizes else None)
    check_device(device, dtype)
    cost_model = resolve_cost_model(request.cost_model, device, kernels)
    length = model.sequence_length(chosen.sequence_length) if model.has_sizes else chosen.sequence_length
    plan, note = request.plan, ""
    if request.recompute_is_open and training is not None and not program.is_captured and length is not None:
        plan, note = least_recomputation(model.sizes, plan, training, length, device)
    return ResolvedStep(
        model=model,
        cluster=cluster,
        device=device,
        plan=plan,
        mode=request.mode,
        training=training,
        dtype=dtype,
        precision=precision,
        sequence_length=length,
        cost_model=cost_model,
        timer=make_timer(
            request.method, request.mode, training, cost_model, request.constants or load_step_constants()
        ),
        program=program,
        defaults=(*request.defaults, *chosen.notes),
        notes=(note,) if note else (),
        image_size=request.image_size,
        memory_format=request.memory_format,
    )


def _check_images(request: PlanRequest, program: StepProgram) -> None:
    """Images are of captured models."""
    if program.is_captured or (request.image_size is None and request.memory_format == "contiguous"):
        return
    raise PlanError(
        "image size and memory format are of a model that takes images and runs as its own modules, not of "
        f"{program.what}"
    )


def kernels_of(cost_model: CostModel) -> str | None:
    """Whose kernels a cost model prices; None: it does not tell frameworks apart."""
    return cost_model.framework if isinstance(cost_model, LearnedCost) else None


def check_devices(plan: Plan, cluster: Cluster) -> None:
    """Whether the plan takes the cluster as a whole.

    Raises:
        PlanError: It does not; the message states the equation.
    """
    if plan.world_size != cluster.num_devices:
        raise PlanError(
            f"dp={plan.data_parallel} · tp={plan.tensor_parallel} · pp={plan.pipeline_parallel} · "
            f"cp={plan.context_parallel} = {plan.world_size} devices, but {cluster.name} has "
            f"{cluster.num_devices}"
        )
