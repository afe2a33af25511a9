"""A cluster profile in a terminal: one row per fitted curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcast.cost.cluster_profile import ClusterProfile
from perfcast.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from rich.console import Console


def print_cluster_profile(profile: ClusterProfile, console: Console) -> None:
    """What each axis costs at its smallest and largest message, and how well the curves fit."""
    from rich.table import Table

    table = Table(title=f"{profile.name}: {profile.world_size} ranks, {profile.backend}", box=None)
    for heading in ("axis", "collective", "curve", "smallest", "largest", "MAPE", "held out"):
        is_text = heading in ("axis", "collective", "curve")
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=is_text)
    for axis in profile.axes:
        for collective, curve in axis.curves.items():
            least, most = map(float, curve.seconds([curve.least_bytes, curve.most_bytes]))
            table.add_row(
                f"{axis.name}={axis.size}",
                collective,
                curve.form_name,
                format_seconds(least),
                format_count(curve.most_bytes / most, "B/s"),
                f"{curve.mape:.1%}",
                f"{curve.held_out_mape:.1%}",
            )
    console.print(table)
    sizes = [size for a in profile.axes for c in a.curves.values() for size in (c.least_bytes, c.most_bytes)]
    if sizes:
        console.print(
            f"Messages from {format_bytes(min(sizes))} to {format_bytes(max(sizes))}.", markup=False
        )
    if profile.source:
        console.print(profile.source, markup=False, soft_wrap=True)
