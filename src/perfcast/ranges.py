"""What a number that is given may be: a range for each sort of size, and the one reading of texts as numbers.

A size beyond its range is refused before any work, in one line that says the range and what to do. Ranges are
generous: a hundred times what anybody runs, and far below what a calculation could not hold.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from perfcast.errors import InputError
from perfcast.units import GIGA, TERA, TIB

#: Characters of a number as text; a double has at most 17 significant digits, Python reads 4,300 and no more.
_MOST_CHARACTERS = 60
_WHOLE = re.compile(r"[+-]?\d(?:_?\d)*", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d(?:_?\d)*\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
_EXCERPT = 40


@dataclass(frozen=True, slots=True)
class Range:
    """What a number may be, both ends included.

    Attributes:
        why: Said behind a refusal: what the end stands for, or what to do.
        is_above: Whether the smallest is left out: a number above it.
        is_below: Whether the largest is left out.
    """

    smallest: float
    largest: float
    why: str = ""
    is_above: bool = False
    is_below: bool = False

    def holds(self, value: float) -> bool:
        """Whether a number lies in it; what is not a number lies in none."""
        above = self.smallest < value if self.is_above else self.smallest <= value
        return above and (value < self.largest if self.is_below else value <= self.largest)

    @property
    def words(self) -> str:
        """Such as ``'between 1 and 1,000'`` or ``'above 0 and at most 1'``."""
        low, high = _spelled(self.smallest), _spelled(self.largest)
        if not self.is_above and not self.is_below:
            return f"between {low} and {high}"
        first = f"above {low}" if self.is_above else f"at least {low}"
        return f"{first} and {'below' if self.is_below else 'at most'} {high}"

    def refusal(self, value: object) -> str:
        """That a value lies outside, with the range and why it ends there."""
        return f"{excerpt(value)} is not {self.words}{self.why and '; '}{self.why}"

    def check(self, what: str, value: float, error: type[InputError] = InputError) -> None:
        """Raise where a number lies outside.

        Args:
            what: It is, for the message: 'batch size', '--devices'.

        Raises:
            InputError: Of the class that is given.
        """
        if not self.holds(value):
            raise error(f"{what} {self.refusal(value)}")


def _spelled(number: float) -> str:
    """As a reader takes it in: ``1,000,000``, ``1e+18``."""
    if number == int(number) and abs(number) < 1e13:
        return f"{int(number):,}"
    return f"{number:g}"


def _where(allowed: Range) -> str:
    return "" if allowed == ANY_NUMBER else f" {allowed.words}"


def excerpt(value: object) -> str:
    """A value as a message holds it: a text in quotes and cut off, a number of many digits by their count."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**_EXCERPT:
        sign = "-" if value < 0 else ""
        return f"{sign}10^{math.floor(math.log10(abs(value)))} and more"
    if isinstance(value, float):
        return f"{value:g}"
    said = repr(value)
    if len(said) <= _EXCERPT * 2:
        return said
    return f"{said[:_EXCERPT]}… ({len(said):,} characters)"


def read_whole(what: str, text: str, allowed: Range, error: type[InputError] = InputError) -> int:
    """A text as a whole number.

    Args:
        what: It is of, for the message.

    Raises:
        InputError: Of the class given: no whole number, one of too many digits, or outside of the range.
    """
    said = text.strip()
    if len(said) > _MOST_CHARACTERS or not _WHOLE.fullmatch(said):
        raise error(f"{what} {excerpt(text)} is not a whole number{_where(allowed)}")
    value = int(said)
    allowed.check(what, value, error)
    return value


def read_number(what: str, text: str, allowed: Range, error: type[InputError] = InputError) -> float:
    """A text as a finite number.

    Args:
        what: It is of, for the message.

    Raises:
        InputError: Of the class given: no number, one of too many digits, not finite, outside of the range.
    """
    said = text.strip()
    if len(said) > _MOST_CHARACTERS or not _NUMBER.fullmatch(said):
        raise error(f"{what} {excerpt(text)} is not a number{_where(allowed)}")
    value = float(said)
    allowed.check(what, value, error)
    return value


# ---- texts --------------------------------------------------------------------------------------

#: Characters of any text that is given; bytes of a name of a file and of a path (Linux).
_MOST_OF_TEXT, _MOST_OF_NAME, _MOST_OF_PATH = 65_536, 255, 4_096


def check_text(what: str, text: str, error: type[InputError] = InputError) -> None:
    """Raise where a text cannot be meant: an empty one is not the same as none.

    Raises:
        InputError: Of the class given: empty, beyond any length, with a character that no text has.
    """
    if not text.strip():
        raise error(f"{what} {excerpt(text)}: an empty text says nothing; give a value, or leave it out")
    if len(text) > _MOST_OF_TEXT:
        raise error(f"{what} {excerpt(text)}: a text has {_MOST_OF_TEXT:,} characters at most")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise error(f"{what} {excerpt(text)}: holds what is no character (a zero byte, or no UTF-8)")


def check_path(what: str, text: str, error: type[InputError] = InputError) -> None:
    """Raise where a text is neither a name of the catalog nor of a file, for it is too long for both.

    Commas part several names.

    Raises:
        InputError: Of the class given.
    """
    parts = text.split(",")
    longest = max(len(name.encode()) for part in parts for name in part.split("/"))
    if longest > _MOST_OF_NAME or max(len(part.encode()) for part in parts) > _MOST_OF_PATH:
        raise error(f"{what} {excerpt(text)}: no name is so long, and no system takes a file of such a name")


# ---- sorts of sizes -----------------------------------------------------------------------------

#: Any finite number, where a text is given as one and its own reader judges it.
ANY_NUMBER = Range(-1e18, 1e18)
#: Any finite number, of which the next look makes a size.
FINITE = Range(-1e300, 1e300)
#: A share of a whole.
FRACTION = Range(0, 1, "a share of a whole, such as 0.8", is_above=True)
#: Of several, some of which may be none.
SHARE = Range(0, 1, "a share of a whole, such as 0.5")
#: Devices of a cluster: a hundred times the largest that are built.
DEVICES = Range(1, 10_000_000, "a cluster has at least one device, and none is so large")
#: Degrees of a plan, and replicas.
DEGREE = Range(1, 10_000_000, "no cluster has more devices")
#: Sequences or samples of a step, over all devices.
BATCH = Range(1, 1_000_000_000, "sequences or samples of one step")
#: Tokens of a sequence: a hundred times the longest contexts.
TOKENS_OF_SEQUENCE = Range(1, 1_000_000_000, "tokens of one sequence")
#: Height and width of an image.
PIXELS = Range(1, 100_000, "pixels of a side")
#: Tokens of a whole training.
TOKENS_OF_RUN = Range(0, 1e18, "tokens of a whole training, such as 15T", is_above=True)
#: Of random draws: what every generator takes.
SEED = Range(0, 2**32 - 1, "any such number gives a series of its own")
#: Any time that is waited for or measured, in seconds: up to thirty thousand years.
SECONDS = Range(0, TERA, "seconds", is_above=True)
#: Requests, rows and other things that are counted, where nothing is said of them in particular.
COUNT = Range(1, 1_000_000_000)
#: Bytes of a message, a file, a memory: a million terabytes.
BYTES = Range(0, 1e18, "bytes")
#: A rank of a program.
RANK = Range(0, 9_999_999, "ranks count from 0")
#: Clients that wait for their answers.
CLIENTS = Range(1, 10_000_000, "clients that each wait for an answer")
#: Requests a second.
REQUEST_RATE = Range(0, GIGA, "requests a second", is_above=True)
#: Of a stream of requests: 0 is even, 1 is Poisson.
BURSTINESS = Range(0, 1000, "0 is even, 1 is Poisson, above come bursts")
#: Of a prompt, those of its tokens that are cached; one has to be read.
CACHED = Range(0, 1, "at least one token of a prompt is read", is_below=True)
#: The busiest rank of experts over the mean.
EXPERT_LOAD = Range(1, 1000, "the busiest over the mean", is_below=True)
#: Requests that are played one by one.
REQUESTS = Range(1, 1_000_000, "each is played: take fewer, the figures are of a stream as it goes on")
#: Sequences of an engine at once, and new tokens of its step.
SEQUENCES = Range(1, 1_000_000, "sequences of an engine at once")
STEP_TOKENS = Range(1, 100_000_000, "new tokens of a step")
GIGABYTES_PER_SECOND = Range(0, GIGA, "GB/s", is_above=True)
#: Dollars of one device-hour.
DOLLARS = Range(0, 1_000_000, "dollars of a device-hour, such as 2.5")
#: Processes or ranks that are started on the machine that answers.
PROCESSES = Range(1, 256, "processes that are started on this machine")
#: Ranks that are launched on the machine that answers.
LAUNCHED = Range(1, 64, "ranks launched on one machine; more run under torchrun or Slurm")
#: Ranks of a made-up cluster, whose pairs are measured one by one.
MADE_UP = Range(2, 16_384, "ranks of a made-up cluster, which is to show how discovery works")
#: Bytes of a buffer that this machine sends.
MESSAGE_BYTES = Range(1, TIB, "bytes of one message that is sent")
STALL = Range(0, 86_400, "seconds that a rank waits for another", is_above=True)
#: Threads of this machine's processor.
THREADS = Range(1, 1024, "threads of this machine's processor")
THREADS_OR_ALL = Range(0, 1024, "threads of this machine's processor; 0: PyTorch's own number")
#: Times that something is measured again.
REPEATS = Range(0, 1_000_000, "repetitions")
