"""One file a source: rows of its tables as kernels."""
