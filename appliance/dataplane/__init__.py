"""Clients of the data planes."""
