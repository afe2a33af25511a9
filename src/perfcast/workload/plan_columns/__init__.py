"""The calls of many plans at once, each different part once."""
