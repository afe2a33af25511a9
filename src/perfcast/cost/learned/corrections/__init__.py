"""A few kernels measured on a device move what is forecast of all its kernels.

``measured`` are the measurements and their file; ``traits`` describe a kernel by what its error has in
common with others'; ``covariance`` says how much; ``evidence`` draws the conclusion; ``moved`` is a family
that has it.
"""
