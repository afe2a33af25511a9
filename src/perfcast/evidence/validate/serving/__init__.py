"""``validate serving``: deployments under a closed loop of clients, measured and forecast."""
