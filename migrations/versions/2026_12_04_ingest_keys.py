"""Keys that programs show at the HTTP door: hashes and revocations, which only grow."""

import sqlalchemy as sa
from alembic import op

from migrations.rights import only_grows

revision = "2026_12_04_ingest_keys"
down_revision = "2026_12_03_stream"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "api_key",
        sa.Column("id", sa.Text(), nullable=False, comment="the part of the key that is no secret"),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False, comment="what it lets in: ingest"),
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="HMAC-SHA256 of the key under the pepper"),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True, comment="null: never"),
        sa.PrimaryKeyConstraint("id", name=op.f("api_key_pkey")),
        comment="Keys that programs show at the door. Only a hash is kept, and nothing is ever changed.",
    )
    op.create_table(
        "api_key_revocation",
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column(
            "revoked_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(["key_id"], ["api_key.id"], name=op.f("api_key_revocation_key_id_fkey")),
        sa.PrimaryKeyConstraint("key_id", name=op.f("api_key_revocation_pkey")),
        comment="Keys taken out of use, for ever.",
    )
    only_grows("api_key", "api_key_revocation")


def downgrade() -> None:
    raise NotImplementedError("the books only go forward; restore a backup")
