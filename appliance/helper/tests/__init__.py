"""Tests of the root helper."""
