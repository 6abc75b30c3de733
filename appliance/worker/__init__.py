# SPDX-License-Identifier: Apache-2.0
"""The worker: the only process that changes storage and data planes. It owns jobs, schedules and reconciliation."""
