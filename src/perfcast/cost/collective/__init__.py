"""The cost of collectives in closed form: from a cluster's links, by algorithm and protocol."""
