# SPDX-License-Identifier: Apache-2.0
"""Runs the suites of the project concurrently: see __main__.py."""
