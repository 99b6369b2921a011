"""The public operations, each written once over a `gridsample.backends.base.Backend`."""
