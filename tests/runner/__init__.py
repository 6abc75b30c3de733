"""Runs the suites of the project side by side: see __main__.py."""
