"""Formulas for what ``simulate.training`` plays, for n plans at once.

``figures`` of calls in rows; ``makespan`` of pipelines, ``passes`` of one micro-batch through a chunk,
``stages`` of a step made of them and ``pipeline``, the whole. ``step`` is that of one plan, whatever its
work came from; ``part_costs`` and ``plans`` those of a table.
"""
