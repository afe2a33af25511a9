"""The designed grid: which operators are timed, on which shapes."""
