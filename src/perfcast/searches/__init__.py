"""The best plan for a model, a cluster and a goal."""
