"""A program played: bound to PyTorch's operators, prepared, called under a clock."""
