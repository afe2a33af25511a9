"""The look that plots share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcast.report.palette import (
    BLUE as BLUE,
)
from perfcast.report.palette import (
    FAMILIES as FAMILIES,
)
from perfcast.report.palette import (
    GREEN as GREEN,
)
from perfcast.report.palette import (
    GREY as GREY,
)
from perfcast.report.palette import (
    INK as INK,
)
from perfcast.report.palette import (
    LINE as LINE,
)
from perfcast.report.palette import (
    ORANGE as ORANGE,
)
from perfcast.report.palette import (
    OTHER_FAMILY as OTHER_FAMILY,
)
from perfcast.report.palette import (
    PINK as PINK,
)
from perfcast.report.palette import (
    PURPLE as PURPLE,
)
from perfcast.report.palette import (
    RED as RED,
)
from perfcast.report.palette import (
    YELLOW as YELLOW,
)

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def finish(figure: Figure, height: int, legend: bool = False) -> Figure:
    """The look that all figures share."""
    figure.update_layout(
        template="none",
        height=height,
        autosize=True,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 13, "color": INK},
        margin={"l": 8, "r": 12, "t": 12, "b": 8},
        showlegend=legend,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "itemsizing": "constant"},
        barcornerradius=3,
    )
    figure.update_xaxes(gridcolor=LINE, linecolor=LINE, zerolinecolor=LINE, automargin=True)
    return figure.update_yaxes(gridcolor=LINE, linecolor=LINE, zerolinecolor=LINE, automargin=True)
