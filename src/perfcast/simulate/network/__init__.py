"""Collectives as flows that share the links of a network max-min fairly.

A topology (``topology``; ``build`` wires it from a cluster and one of the ``fabrics``) and flows
(``flows``, ``collectives``) meet in ``routing``.
``bottlenecks`` drops links that hold nobody back, and ``symmetry`` finds which flows must behave alike;
``fair_share`` says how fast each is; ``engine`` moves time from event to event; ``simulate`` is the door.
"""
