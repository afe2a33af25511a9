"""Which links a flow crosses: shortest paths, and detours round crowded ones."""
