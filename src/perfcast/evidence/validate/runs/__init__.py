"""Lines of tables of measured runs: what was run, on what."""
