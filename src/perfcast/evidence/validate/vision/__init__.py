"""``validate vision``: image models, and whatever else is measured beside them, step by step."""
