"""Sends what is to be told to others: webhooks."""
