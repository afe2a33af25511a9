"""Formulas for what ``simulate.training`` plays: ``makespan`` of pipelines, ``step`` of whole steps."""
