"""Which sampling settings make sense, and which of them training may use."""

from __future__ import annotations

from gtpo_lit.types import SamplingSettings


def check_settings(settings: SamplingSettings) -> None:
    """Raise ValueError on values out of range; temperature 0, greedy, is in range."""
    for name, fine, range_ in (
        ("temperature", settings.temperature >= 0, "at least 0"),
        ("top_p", 0 < settings.top_p <= 1, "in (0, 1]"),
        ("top_k", settings.top_k >= 0, "at least 0"),
        ("min_p", 0 <= settings.min_p <= 1, "in [0, 1]"),
        ("max_tokens", settings.max_tokens >= 1, "at least 1"),
    ):
        if not fine:
            raise ValueError(f"{name} must be {range_}, got {getattr(settings, name)}")


def check_training_settings(
    settings: SamplingSettings, *, allow_biased_sampling: bool = False
) -> None:
    """Refuse settings under which completions do not come from the policy that is trained.

    Top-p, top-k and min-p cut the distribution, but log-probs are those of the whole one, so the
    importance ratio is biased.

    Raises:
        ValueError: a value out of range, temperature 0, or a cut that was not asked for by name.
    """
    check_settings(settings)
    if settings.temperature == 0:
        raise ValueError("temperature must be above 0 in training, got 0")
    cuts = {"top_p": 1.0, "top_k": 0, "min_p": 0.0}
    used = [
        f"{name}={getattr(settings, name)}"
        for name, off in cuts.items()
        if getattr(settings, name) != off
    ]
    if used and not allow_biased_sampling:
        raise ValueError(
            f"{', '.join(used)} in training biases the importance ratio; turn it off, or ask for "
            "it with allow_biased_sampling: true"
        )
