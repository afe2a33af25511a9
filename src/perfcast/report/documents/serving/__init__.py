"""What is said of deployments under load."""
