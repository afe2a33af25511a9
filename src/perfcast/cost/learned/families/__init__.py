"""What each family of kernels contributes: its physics, and the features of the rest."""
