"""What every test shares."""

from hypothesis import HealthCheck, settings

# Examples are drawn the same way everywhere, and a busy machine is not a failure.
settings.register_profile(
    "project",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("project")
