"""``train serving``: what no step's time holds, fitted to measured points under load."""
