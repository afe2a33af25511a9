"""``perfcast shard``: where the embedding tables of a recommendation model lie on a cluster."""

from perfcast.verbs.shard.question import ShardQuestion

__all__ = ["ShardQuestion"]
