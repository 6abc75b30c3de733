# SPDX-License-Identifier: Apache-2.0
"""Sends what is to be told to others: receivers."""
