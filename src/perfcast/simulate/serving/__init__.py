"""Requests played through engines, step by step: queues, batches, memory for keys and values."""
