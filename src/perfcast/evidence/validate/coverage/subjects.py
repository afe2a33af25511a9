"""The subjects of ``validate coverage``, in the order of its table. A new one is a line here, and a file."""

from __future__ import annotations

from perfcast.evidence.validate.coverage.collectives import COLLECTIVES
from perfcast.evidence.validate.coverage.llm_inference import LLM_INFERENCE
from perfcast.evidence.validate.coverage.one_device_steps import ONE_DEVICE_STEPS
from perfcast.evidence.validate.coverage.peak_memory import PEAK_MEMORY
from perfcast.evidence.validate.coverage.recorded_steps import RECORDED_STEPS
from perfcast.evidence.validate.coverage.serving_points import SERVING_POINTS
from perfcast.evidence.validate.coverage.subject import Subject
from perfcast.evidence.validate.coverage.training_steps import TRAINING_STEPS
from perfcast.evidence.validate.coverage.unseen_kernels import UNSEEN_KERNELS

SUBJECTS: tuple[Subject, ...] = (
    TRAINING_STEPS,
    PEAK_MEMORY,
    COLLECTIVES,
    RECORDED_STEPS,
    UNSEEN_KERNELS,
    ONE_DEVICE_STEPS,
    LLM_INFERENCE,
    SERVING_POINTS,
)
