# SPDX-License-Identifier: Apache-2.0
"""The installation's database: SQLite by SQLAlchemy, its tables, and the generation of the configuration.

Datastores are not in it: what identifies them is in ZFS, with their data.
"""
