"""The time of a step under a plan: work, prices, the simulator's answer, and what would relax it."""
