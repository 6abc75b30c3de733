# SPDX-License-Identifier: Apache-2.0
"""The installation's database: SQLite by SQLAlchemy, its tables and their migrations.

Datastores are not in it: what identifies them is in ZFS, with their data.
"""
