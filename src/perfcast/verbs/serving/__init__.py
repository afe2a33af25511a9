"""``perfcast serving``: what clients of a deployment wait, and what it answers and costs."""

from perfcast.verbs.serving.question import ServingQuestion
from perfcast.verbs.serving.request import request_of

__all__ = ["ServingQuestion", "request_of"]
