"""Recordings as programs that run again."""
