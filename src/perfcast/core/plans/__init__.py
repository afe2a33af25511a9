"""Plans as text, in columns, on ranks: what is made of ``core.plan``."""
