# SPDX-License-Identifier: Apache-2.0
"""Webhooks are given up after so many refusals in a row."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this version."""
    with op.batch_alter_table("webhook_deliveries", schema=None) as batch_op:
        batch_op.add_column(sa.Column("refusals", sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Back."""
    with op.batch_alter_table("webhook_deliveries", schema=None) as batch_op:
        batch_op.drop_column("refusals")
