"""What JSON holds of deployments under load."""
