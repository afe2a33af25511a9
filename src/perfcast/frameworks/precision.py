"""What a framework makes of a format's name: the precision of its products, activations and cache."""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.precision import Precision, inference_precision
from perfcast.core.training import FRAMEWORKS, Training
from perfcast.errors import PlanError, UnknownNameError
from perfcast.frameworks.load import load_inference_profiles, load_training_profile

#: Whose rules hold where no framework is named.
PLAIN = "pytorch"


def serving_precision(
    dtype: str, framework: str | None = None, kv_cache_dtype: str | None = None
) -> Precision:
    """How numbers are kept while a framework serves a model in a format.

    Args:
        dtype: Name of a format, however it is spelled.
        framework: One with an inference profile; None: plain PyTorch.
        kv_cache_dtype: Of keys and values; None or 'auto': what the framework keeps.

    Raises:
        UnknownNameError: Not a format, or no framework that infers.
    """
    profiles = load_inference_profiles()
    name = framework or PLAIN
    if name not in profiles:
        raise UnknownNameError("framework", name, tuple(profiles), f"Known: {', '.join(profiles)}.")
    profile = profiles[name]
    found = inference_precision(dtype, kv_cache_dtype, narrow_caches=profile.narrow_caches)
    is_narrow = found.cache_format == "fp8" and found.products.is_narrow
    return replace(found, attends_in_cache_format=profile.attends_in_cache_format and is_narrow)


def check_training_format(training: Training) -> None:
    """Whether a framework trains in a format.

    Raises:
        PlanError: It does not; the message says who does.
    """
    if not training.precision.products.is_narrow:
        return
    of = {name: load_training_profile(name).support.narrow_formats for name in FRAMEWORKS}
    if training.dtype not in of[training.framework]:
        own = ", ".join(of[training.framework]) or "no format of fewer than 16 bits"
        others = ", ".join(name for name, formats in of.items() if training.dtype in formats)
        raise PlanError(
            f"framework {training.framework} does not train in {training.dtype} (it has {own}); "
            f"take --framework {others}"
        )


def refuse_cache_of_training(kv_cache_dtype: str | None) -> None:
    """A training has no such cache.

    Raises:
        PlanError: A format of it was asked for.
    """
    if kv_cache_dtype is not None:
        raise PlanError("--kv-cache-dtype is of prefill and decode; a training keeps no keys and values")
