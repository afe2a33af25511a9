"""Answers are made in processes of their own, bounded in memory and time; their end harms nothing."""
