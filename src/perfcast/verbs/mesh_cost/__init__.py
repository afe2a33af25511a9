"""``perfcast mesh cost``: a collective on axes of a mesh."""

from perfcast.verbs.mesh_cost.question import MeshCostQuestion

__all__ = ["MeshCostQuestion"]
