"""Whether a framework can train what a training asks for of a model."""

from __future__ import annotations

from perfcast.core.model.transformer import Transformer
from perfcast.core.training import Training
from perfcast.core.tuning.weights import check_tuning
from perfcast.errors import PlanError
from perfcast.frameworks.load import framework_names, load_framework, load_training_profile


def check_trained(model: Transformer, training: Training) -> None:
    """Refuse what the model does not have, and what the program cannot train.

    Raises:
        PlanError: As ``check_tuning``; adapters or four-bit weights that the framework does not have, with
            those that have them.
    """
    tuning = training.tuning
    check_tuning(model, tuning)
    support = load_training_profile(training.framework).support
    if tuning.adapters is not None and not support.has_adapters:
        raise PlanError(
            f"framework {training.framework} has no adapters; take --framework {_having('has_adapters')}"
        )
    if tuning.is_quantised and not support.has_four_bit_weights:
        raise PlanError(
            f"framework {training.framework} keeps no weights in four bits; take --framework "
            f"{_having('has_four_bit_weights')}"
        )


def _having(fact: str) -> str:
    profiles = {name: load_framework(name).training for name in framework_names()}
    names = [name for name, profile in profiles.items() if profile and getattr(profile.support, fact)]
    return " or ".join(names)
