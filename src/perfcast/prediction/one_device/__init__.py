"""One device: the graph of a step captured from its modules, its prices and its memory."""
