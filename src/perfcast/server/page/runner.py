"""What makes a view's answers: while controls move, or as a job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, Protocol

from perfcast.server.desk import Desk
from perfcast.server.page.asking import Answered
from perfcast.server.page.view import Plain, View

#: What becomes of the address: a new one that can be gone back from, another in its place, or none.
Address = Literal["push", "replace", "keep"]


class Stage(Protocol):
    """Where a runner shows what comes of it."""

    @property
    def view(self) -> View:
        """Whose question is asked."""

    @property
    def desk(self) -> Desk:
        """Where it is asked."""

    @property
    def is_narrow(self) -> bool:
        """Whether it is a phone's."""

    @property
    def answered(self) -> Answered | None:
        """What is shown; None before the first answer."""

    def show(self, answered: Answered, *, address: Address) -> None:
        """Show an answer."""

    def show_error(self, text: str) -> None:
        """Say why there is none."""

    def set_stale(self, is_stale: bool) -> None:
        """Whether the answer is of another question than the controls'."""


class Runner(ABC):
    """Asks for a stage. Draws its own signs of work where it is made."""

    @abstractmethod
    def open(self, plain: Plain) -> None:
        """An address was opened that asks this."""

    @abstractmethod
    def changed(self, plain: Plain) -> None:
        """A user has changed the controls to this."""
