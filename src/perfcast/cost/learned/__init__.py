"""Our own forecaster: physics gives the structure, learning fills in what a library achieves of it."""
