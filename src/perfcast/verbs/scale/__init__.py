"""``perfcast scale``: more devices, larger batches, longer contexts, and how far a run can scale at all."""

from perfcast.verbs.scale.question import ScaleQuestion

__all__ = ["ScaleQuestion"]
