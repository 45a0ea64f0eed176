"""What a split policy may compute in."""

COMPUTE_DTYPES = (None, "float32", "bfloat16", "float16")
"""Names of torch's dtypes; None is that of the policy's weights."""
