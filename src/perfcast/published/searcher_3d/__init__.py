"""The 3D-parallelism searcher."""
