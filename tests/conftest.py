"""Settings of all tests."""

from hypothesis import settings

# The same examples on every run, and no deadline on a noisy machine that may be compiling a kernel.
settings.register_profile("neophyte", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("neophyte")
