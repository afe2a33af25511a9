"""Mixtures of experts whose routing depends on values, given a balanced load instead.

Eager routing asks which tokens chose an expert, which a symbolic run cannot know. Here every expert
gets an equal share of the tokens; the program is otherwise the module's own.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import nn


def balance_experts(root: nn.Module) -> tuple[str, ...]:
    """Replace the data-dependent expert loops inside ``root``; returns what was assumed."""
    found = [m for m in root.modules() if type(m).__name__ == "SwitchTransformersExperts"]
    for experts in found:
        experts.forward = MethodType(_switch_experts, experts)
    for router in (m for m in root.modules() if type(m).__name__ == "SwitchTransformersTop1Router"):
        _settle_precision(router)
    grouped = any(
        getattr(m, "top_k", None) and "Experts" in type(c).__name__
        for m in root.modules()
        for c in m.children()
    )
    return ("tokens are spread evenly over the experts",) if found or grouped else ()


def _settle_precision(router: Any) -> None:
    """The router converts its classifier in every forward; convert it once, and let that be a no-op."""
    classifier = router.classifier
    for name, parameter in list(classifier.named_parameters()):
        setattr(classifier, name, nn.Parameter(parameter.detach().to(router.dtype)))
    classifier.to = lambda *args, **kwargs: classifier


def _switch_experts(
    self: Any, hidden_states: torch.Tensor, selected_experts: torch.Tensor, routing_weights: torch.Tensor
) -> torch.Tensor:
    """Each expert in turn takes its share of the tokens and adds its result to their places."""
    result = torch.zeros_like(hidden_states)
    num_tokens = hidden_states.shape[0]
    share = -(-num_tokens // self.num_experts)
    for index in range(self.num_experts):
        start, end = index * share, min((index + 1) * share, num_tokens)
        if start >= end:
            break
        tokens = torch.arange(start, end, device=hidden_states.device)
        chosen = hidden_states[None, tokens].reshape(-1, hidden_states.shape[-1])
        output = self[f"expert_{index}"](chosen) * routing_weights[tokens]
        result.index_add_(0, tokens, output.to(hidden_states.dtype))
    return result
