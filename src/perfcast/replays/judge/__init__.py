"""How a replay behaves beside what was recorded."""
