"""Property tests draw the same examples in every run; ``pytest --hypothesis-seed=random`` draws others."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "reproducible", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("reproducible")
