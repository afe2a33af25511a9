"""What a serving program's host does around each step, and which steps it replays as captured graphs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class StepHost:
    """The host's time of a step.

    A step takes max(device, host) + gap where the host prepares the next step while the device computes
    this one, and device + host + gap where it does not. Kernels that no graph replays are issued while the
    device computes: a step without a graph takes at least as long as that.

    Attributes:
        fixed_seconds: Of every step: scheduler, input tensors, messages between processes.
        sequence_seconds: Of each sequence that writes: its row of the inputs, its token's text, its stop.
        prompt_seconds: Of each prompt of which a step reads a part.
        gap_seconds: Of every step, on no device however early the host is: inputs copied, the graph begun,
            the token read back.
        launch_seconds: From one kernel to the next, where the host issues each.
        overlaps: Whether the host prepares the next step meanwhile.
    """

    fixed_seconds: float = 0.0
    sequence_seconds: float = 0.0
    prompt_seconds: float = 0.0
    gap_seconds: float = 0.0
    launch_seconds: float = 0.0
    overlaps: bool = True

    def seconds(self, sequences: Floats | float, prompts: Floats | float) -> Floats:
        """Of a step, without launches and gap; as the arguments' shape."""
        each = self.sequence_seconds * np.asarray(sequences) + self.prompt_seconds * np.asarray(prompts)
        return self.fixed_seconds + each

    def scaled(self, factor: float) -> StepHost:
        """That of a processor that takes so many times as long."""
        return StepHost(
            fixed_seconds=factor * self.fixed_seconds,
            sequence_seconds=factor * self.sequence_seconds,
            prompt_seconds=factor * self.prompt_seconds,
            gap_seconds=factor * self.gap_seconds,
            launch_seconds=factor * self.launch_seconds,
            overlaps=self.overlaps,
        )

    def around(self, device: Floats, host: Floats) -> Floats:
        """A step on a device that computes so long, with a host that needs so long."""
        return (np.maximum(device, host) if self.overlaps else device + host) + self.gap_seconds


#: Where nothing is known, or a step is wanted as its device computes it.
NO_HOST = StepHost()
