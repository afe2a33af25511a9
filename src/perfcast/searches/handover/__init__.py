"""A plan as what the user runs next: a framework's own configuration, with the lines that start it.

``hand_over`` says which of ``TARGETS``; a plan that one cannot run is refused, with what is in the way and
which others can.
"""

from perfcast.searches.handover.write import TARGETS, find_targets, hand_over

__all__ = ["TARGETS", "find_targets", "hand_over"]
