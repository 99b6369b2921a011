"""Other projects' own tests, run as they are and with our functions in place (docs/suites.md)."""
