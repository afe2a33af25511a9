"""``perfcast predict``: one device, a plan, a parallel program, a recommendation model."""

from perfcast.verbs.predict.question import PredictQuestion
from perfcast.verbs.predict.request import request_of

__all__ = ["PredictQuestion", "request_of"]
