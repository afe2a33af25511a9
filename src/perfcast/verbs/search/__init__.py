"""``perfcast search``: the best plan of a model on a cluster, and why it wins."""

from perfcast.verbs.search.question import SearchQuestion

__all__ = ["SearchQuestion"]
