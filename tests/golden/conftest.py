"""What the tests of golden answers share."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden.inputs import write_inputs


@pytest.fixture(scope="module")
def golden_inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all inputs that commands name with ``@``."""
    return write_inputs(tmp_path_factory.mktemp("golden"))
