"""Plain PyTorch (autocast, DistributedDataParallel): the eager closed form, and what replicas add."""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.forecast.footprint import PeakCandidate, StageFootprint, Term
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category
from perfcast.core.training import Training
from perfcast.errors import PlanError
from perfcast.frameworks.load import load_training_profile
from perfcast.frameworks.obstacles import plan_obstacles
from perfcast.memory_use.footprint.pytorch.optimizer import DENOMINATORS, OPTIMIZERS
from perfcast.memory_use.footprint.pytorch.step import count_eager_parameters, estimate_eager
from perfcast.memory_use.footprint.pytorch.tuned import of_trained, trained_share

_DDP = "Li et al.: PyTorch Distributed, VLDB 2020, section 3.2.3"
_ZERO = "PyTorch: torch.distributed.optim.ZeroRedundancyOptimizer"


def pytorch_stage(
    model: Transformer, plan: Plan, training: Training, sequence_length: int, workspace_bytes: int
) -> StageFootprint:
    """What a rank holds that has the whole model, whose own weights train; those of frozen parts do not.

    Raises:
        PlanError: A plan that cuts the model, or shards more than the optimizer's state.
    """
    check_whole(plan)
    _check_training(training)
    share = 1.0 if training.tuning.is_full else trained_share(model, training.tuning)
    eager = estimate_eager(
        model,
        batch_size=plan.micro_batch_size,
        sequence_length=sequence_length,
        dtype=training.dtype,
        optimizer=training.optimizer,
        recompute=plan.recompute,
        attention=training.attention,
    )
    gradient_bytes = round(share * 4 * count_eager_parameters(model))
    always = (*_buckets(plan, gradient_bytes), _workspaces(workspace_bytes))
    candidates = []
    for candidate in eager if share == 1 else of_trained(eager, share):
        terms = tuple(_shard(term, plan) for term in candidate.terms)
        earlier = _earlier_gradients(candidate, plan, gradient_bytes)
        held = tuple(term for term in (*terms, earlier, *always) if term.num_bytes)
        candidates.append(PeakCandidate(candidate.name, held))
    return StageFootprint(0, tuple(candidates))


def check_whole(plan: Plan) -> None:
    """Refuse what plain PyTorch does not run.

    Raises:
        PlanError: A plan that cuts the model, or shards more than the optimizer's state.
    """
    obstacles = plan_obstacles(load_training_profile("pytorch").support, plan)
    if obstacles:
        raise PlanError(f"framework pytorch cannot run this plan: {'; '.join(obstacles)}")


def _check_training(training: Training) -> None:
    if training.precision.products.is_narrow:
        raise PlanError(f"framework pytorch has no {training.dtype} training; take --framework megatron")
    if training.optimizer not in OPTIMIZERS:
        raise PlanError(
            f"framework pytorch has the optimizers {', '.join(OPTIMIZERS)}; for {training.optimizer} take "
            "another --framework"
        )


def _shard(term: Term, plan: Plan) -> Term:
    """Optimizer state and what its update makes, over the replicas, with ZeRO 1."""
    is_optimizers = term.category == Category.OPTIMIZER_STATE or term.name == DENOMINATORS
    if not is_optimizers or plan.zero_stage == 0:
        return term
    replicas = plan.shard_size
    return replace(
        term, num_bytes=term.num_bytes // replicas, formula=f"{term.formula} / {replicas}", source=_ZERO
    )


def _earlier_gradients(candidate: PeakCandidate, plan: Plan, gradient_bytes: int) -> Term:
    """Gradients of earlier micro-batches, less those that the candidate counts anyway."""
    counted = sum(term.num_bytes for term in candidate.terms if term.category == Category.GRADIENT)
    missing = max(0, gradient_bytes - counted) if plan.num_micro_batches > 1 else 0
    return Term("gradients of earlier micro-batches", Category.GRADIENT, missing, "4 bytes a parameter", _DDP)


def _buckets(plan: Plan, gradient_bytes: int) -> tuple[Term, ...]:
    """Buckets of DistributedDataParallel beside the gradients (gradient_as_bucket_view is off by default)."""
    if plan.num_dense_replicas == 1:
        return ()
    return (Term("reduction buckets", Category.GRADIENT, gradient_bytes, "4 bytes a parameter", _DDP),)


def _workspaces(num_bytes: int) -> Term:
    return Term("workspaces of products", Category.BUFFER, num_bytes, "one", "PyTorch: CUDABlas")
