"""Models recorded here at one batch, forecast at others, and really run at those."""
