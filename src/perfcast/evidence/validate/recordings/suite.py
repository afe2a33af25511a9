"""``validate recordings``: recorded steps forecast from other recordings of the same program.

'another device': a model recorded on two devices, each forecast from the other. 'steps left out': each marked
step of a recording from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from perfcast.errors import InputError, UnknownNameError
from perfcast.evidence.train.recorded_kernels.observe import observe
from perfcast.evidence.validate.recordings.elsewhere import LEFT_OUT, SHIPPED, pairs_of, rows_elsewhere
from perfcast.evidence.validate.recordings.found import Recording, read_recordings
from perfcast.evidence.validate.recordings.left_out import OTHERS, OWN_WORK, rows_left_out
from perfcast.evidence.validate.result import SuiteResult
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.sampling import DEFAULT_MAX_ROWS

SUITE = "recordings"
PREDICTORS = (LEFT_OUT, SHIPPED, OWN_WORK, OTHERS)
Say = Callable[[str], None]


def validate_recordings(
    places: Sequence[Path],
    predictors: Sequence[str] = (),
    *,
    max_rows: int = DEFAULT_MAX_ROWS,
    say: Say = lambda text: None,
    on_row: Callable[[Row], None] = lambda row: None,
) -> SuiteResult:
    """Forecast and compare.

    Args:
        places: Folders of recordings.
        predictors: Of ``PREDICTORS``; default: all but the shipped constants, which were fitted to what they
            would be judged by.

    Raises:
        UnknownNameError: Unknown predictors.
        InputError: No recording there.
    """
    names = tuple(predictors) or (LEFT_OUT, OWN_WORK, OTHERS)
    for name in names:
        if name not in PREDICTORS:
            raise UnknownNameError("predictor", name, PREDICTORS, f"Known: {', '.join(PREDICTORS)}.")
    recordings = list(read_recordings(places, say))
    if not recordings:
        raise InputError(f"no recording of PyTorch's profiler in {', '.join(map(str, places))}")
    rows: list[Row] = []
    for row in _rows(recordings, names, say):
        rows.append(row)
        on_row(row)
        if len(rows) >= max_rows:
            break
    return SuiteResult(SUITE, _protocol(), tuple(rows))


def _rows(recordings: Sequence[Recording], names: Sequence[str], say: Say) -> Iterator[Row]:
    constants = [name for name in names if name in (LEFT_OUT, SHIPPED)]
    pairs = list(pairs_of(recordings)) if constants else []
    observed = list(observe([one.path for one in recordings], say)) if pairs and LEFT_OUT in names else []
    for pair in pairs:
        for name in constants:
            yield from rows_elsewhere(pair, name, observed)
    for recording in recordings:
        if len(recording.trace.steps) > 1 and {OWN_WORK, OTHERS} & set(names):
            yield from (row for row in rows_left_out(recording) if row.predictor in names)


def _protocol() -> dict[str, Any]:
    return {
        "another device": "a model's recording on each of two devices from that on the other (files named "
        "DEVICE_MODEL); kernels by the ratio of learned's prices, which no recording was fitted to, with "
        f"what a vendor's libraries and launches add, of '{LEFT_OUT}' fitted to the recordings of other "
        "models alone; how much of a kernel's residual two devices share was set beforehand (0.5 between "
        "vendors). Hosts by the usual processors of machines with the devices",
        "steps left out": "each step but the first (it holds the profiler's start and finds the device's "
        f"queue empty). '{OWN_WORK}': host overheads fitted to all other steps, kernels and structure of "
        f"the step itself, run once from where it began. '{OTHERS}': nothing of the step is seen; the long "
        "run of the steps before it, and of those after it",
    }
