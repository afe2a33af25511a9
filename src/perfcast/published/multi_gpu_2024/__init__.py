"""Lin et al.: steps from recordings, host overheads and kernels' models (HiPC 2022, IEEE TPDS 2024)."""
