"""What holds for every test."""

import os

import hypothesis

# No window opens, whatever draws.
os.environ["MPLBACKEND"] = "Agg"

# A first call may compile, so no example has a deadline.  In CI every run tries the same examples.
hypothesis.settings.register_profile(
    "gridsample", deadline=None, derandomize="CI" in os.environ, print_blob=True
)
hypothesis.settings.load_profile("gridsample")
