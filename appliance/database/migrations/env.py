# SPDX-License-Identifier: Apache-2.0
"""Alembic's entry: migrations run in the transaction of who asked."""

from alembic import context

from appliance.database.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
    transactional_ddl=False,
)
context.run_migrations()
