"""The views of the page, in the order in which they are offered."""

from __future__ import annotations

from perfcast.server.page.view import View
from perfcast.server.page.views.forecast import FORECAST

VIEWS: tuple[View, ...] = (FORECAST,)
