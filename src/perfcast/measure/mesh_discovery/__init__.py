"""From latency and bandwidth of pairs of ranks to a cluster's hierarchy; ``discover`` is the front door."""
