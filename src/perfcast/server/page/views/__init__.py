"""The views of the page, in the order in which they are offered."""

from __future__ import annotations

from perfcast.server.page.view import View
from perfcast.server.page.views.accuracy import ACCURACY
from perfcast.server.page.views.catalog import CATALOG
from perfcast.server.page.views.forecast import FORECAST
from perfcast.server.page.views.memory import MEMORY
from perfcast.server.page.views.scale import SCALE
from perfcast.server.page.views.search import SEARCH
from perfcast.server.page.views.serving import SERVING
from perfcast.server.page.views.traces import TRACES

VIEWS: tuple[View, ...] = (FORECAST, SEARCH, SERVING, SCALE, MEMORY, TRACES, ACCURACY, CATALOG)
