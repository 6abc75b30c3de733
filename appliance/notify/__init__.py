# SPDX-License-Identifier: Apache-2.0
"""Sends alerts to receivers: webhooks and e-mail."""
