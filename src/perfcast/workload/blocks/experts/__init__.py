"""A mixture of experts of one rank: routing, kernels, training and serving."""
