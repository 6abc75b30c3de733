# SPDX-License-Identifier: Apache-2.0
"""How NFS datastores are shown to hosts."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this version."""
    op.create_table(
        "exports",
        sa.Column("datastore", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("share", sa.String(), nullable=False),
        sa.Column("versions", sa.JSON(), nullable=False),
        sa.Column("squash", sa.String(), nullable=False),
        sa.Column("clients", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("datastore", name=op.f("pk_exports")),
        sa.UniqueConstraint("number", name=op.f("uq_exports_number")),
        sa.UniqueConstraint("share", name=op.f("uq_exports_share")),
    )
    op.create_table(
        "export_groups",
        sa.Column("datastore", sa.String(), nullable=False),
        sa.Column("group_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["datastore"], ["exports.datastore"], name=op.f("fk_export_groups_datastore_exports"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["group_id"], ["host_groups.id"], name=op.f("fk_export_groups_group_id_host_groups")),
        sa.PrimaryKeyConstraint("datastore", "group_id", name=op.f("pk_export_groups")),
    )
    op.create_index(op.f("ix_export_groups_group_id"), "export_groups", ["group_id"])


def downgrade() -> None:
    """Back."""
    op.drop_table("export_groups")
    op.drop_table("exports")
