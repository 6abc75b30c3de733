"""Tests of what is sent to others."""
