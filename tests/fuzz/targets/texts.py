"""Small grammars: plans, networks, clusters, shapes, lengths, times, amounts, prices."""

from __future__ import annotations

from fuzz.target import text_target
from perfcast.core.plans.text import format_values, parse_plan

TARGETS = (
    text_target(
        "text/plan",
        parse_plan,
        ["tp=8,pp=4,zero=1", "dp=2,tp=2,pp=2,cp=1,ep=1,vp=2,sp=1,recompute=full,schedule=1f1b", "zero=3"],
        show=format_values,
    ),
)
