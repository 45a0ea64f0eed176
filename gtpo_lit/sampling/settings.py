"""Which sampling settings fit which use."""

from __future__ import annotations

from gtpo_lit.types import SamplingSettings


def check_settings(settings: SamplingSettings, *, option: str) -> None:
    """Refuse impossible settings.

    Raises:
        ValueError: naming option and value.
    """
    for name, fits, wanted in (
        ("temperature", settings.temperature >= 0, "at least 0"),
        ("top_p", 0 < settings.top_p <= 1, "in (0, 1]"),
        ("top_k", settings.top_k >= 0, "at least 0"),
        ("min_p", 0 <= settings.min_p <= 1, "in [0, 1]"),
        ("max_tokens", settings.max_tokens >= 1, "at least 1"),
    ):
        if not fits:
            raise ValueError(f"{option}.{name} must be {wanted}, got {getattr(settings, name)}")


def check_training_settings(settings: SamplingSettings, *, allow_biased: bool) -> None:
    """Refuse settings under which the importance ratio compares different distributions.

    Raises:
        ValueError: for temperature 0, or top-p, top-k or min-p that are on without
            `allow_biased`, naming option and value.
    """
    check_settings(settings, option="data.sampling")
    if settings.temperature == 0:
        raise ValueError("data.sampling.temperature must be positive in training, got 0")
    for name, off in (("top_p", 1.0), ("top_k", 0), ("min_p", 0.0)):
        value = getattr(settings, name)
        if value != off and not allow_biased:
            raise ValueError(
                f"data.sampling.{name} = {value} trains on completions of another distribution "
                f"than the ratio compares; set it to {off}, or data.allow_biased_sampling: true"
            )
