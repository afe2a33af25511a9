"""The subjects of ``validate coverage``, in the order of its table. A new one is a line here, and a file."""

from __future__ import annotations

from perfcast.evidence.validate.coverage.collectives import COLLECTIVES
from perfcast.evidence.validate.coverage.peak_memory import PEAK_MEMORY
from perfcast.evidence.validate.coverage.subject import Subject
from perfcast.evidence.validate.coverage.training_steps import TRAINING_STEPS

SUBJECTS: tuple[Subject, ...] = (TRAINING_STEPS, PEAK_MEMORY, COLLECTIVES)
