"""Recommendation models whose tables are spread over several devices."""
