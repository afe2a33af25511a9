"""What a forecast is of: whose kernels run a step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProgram:
    """The program that runs a step.

    Attributes:
        framework: Whose it is, as ``--framework`` names it.
        is_captured: Whether the model's own modules run, captured operator by operator; else the framework's
            kernels do, built from the model's sizes.
        is_compiled: Whether torch.compile fuses what runs.
        what: That in words, without a full stop.
        instead: Which option changes it, in words; '' where none does.
    """

    framework: str
    is_captured: bool
    is_compiled: bool = False
    what: str = ""
    instead: str = ""

    @property
    def words(self) -> str:
        """What runs, and which option changes it."""
        return f"{self.what}; {self.instead}" if self.instead else self.what
