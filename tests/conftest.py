"""Property tests draw the same examples in every run; ``pytest --hypothesis-seed=random`` draws others."""

from hypothesis import settings

settings.register_profile("reproducible", derandomize=True)
settings.load_profile("reproducible")
