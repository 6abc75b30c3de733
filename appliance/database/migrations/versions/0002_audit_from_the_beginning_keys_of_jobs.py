# SPDX-License-Identifier: Apache-2.0
"""An entry of the audit has no status before it has ended; a job has the key of the request that asked for it."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this version."""
    with op.batch_alter_table("audit", schema=None) as batch_op:
        batch_op.alter_column("status", existing_type=sa.Integer(), nullable=True)
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("key", sa.String(), nullable=True))
        batch_op.create_unique_constraint(op.f("uq_jobs_key"), ["key"])


def downgrade() -> None:
    """Back."""
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.drop_constraint(op.f("uq_jobs_key"), type_="unique")
        batch_op.drop_column("key")
    op.execute("UPDATE audit SET status = 0 WHERE status IS NULL")
    with op.batch_alter_table("audit", schema=None) as batch_op:
        batch_op.alter_column("status", existing_type=sa.Integer(), nullable=False)
