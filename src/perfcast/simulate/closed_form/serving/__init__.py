"""The steady state of serving by formula, of n deployments at once: what ``simulate.serving`` plays.

``work`` is what requests ask for, ``cycle`` one engine with a steady number of them, ``ranks`` those that
step together, ``wait`` what a stream of requests waits beyond that, ``figures`` the distributions; ``steady``
closes the loop between clients and engines of one pool, ``tandem`` of two; ``one`` is the door for a single
deployment.
"""

from perfcast.simulate.closed_form.serving.one import columns_of, steady_state
from perfcast.simulate.closed_form.serving.steady import steady_columns
from perfcast.simulate.closed_form.serving.tandem import tandem_columns

__all__ = ["columns_of", "steady_columns", "steady_state", "tandem_columns"]
