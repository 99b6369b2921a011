"""The version, in the one place that packaging and `gridsample.__version__` read it from."""

__version__ = "0.1.0"
