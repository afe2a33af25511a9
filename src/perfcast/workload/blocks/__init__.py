"""Transformers by their sizes → the calls that each rank of a plan runs; no graph, no torch."""

from perfcast.workload.blocks.step.training import build_step_work

__all__ = ["build_step_work"]
