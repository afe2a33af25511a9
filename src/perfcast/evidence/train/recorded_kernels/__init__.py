"""Constants of kernels that PyTorch launches one by one, fitted to recordings."""
