"""Formulas for what ``simulate.training`` plays.

``makespan`` of pipelines, ``passes`` of one micro-batch through a chunk, ``stages`` of a step made of them,
and ``step``, the whole.
"""
