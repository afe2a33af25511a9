from __future__ import annotations

import pytest

from builders import small_forecast
from perfcast.core.forecast.device import Forecast


@pytest.fixture(scope="session")
def forecast() -> Forecast:
    return small_forecast()
