"""Cost of embedding lookups, which depends on how often a batch looks up the same rows."""
