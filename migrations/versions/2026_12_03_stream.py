"""The stream: how far each partition is recorded, messages nobody could read, heartbeats from the future."""

import sqlalchemy as sa
from alembic import op

from migrations.rights import may_change, only_grows

revision = "2026_12_03_stream"
down_revision = "2026_12_02_invoices"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "stream_offset",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False, comment="of the first message not recorded yet"),
        sa.Column("epoch", sa.BigInteger(), nullable=False, comment="one more with each consumer that takes over"),
        sa.Column("owner", sa.Text(), nullable=False, comment="the consumer that took over last"),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("topic", "partition", name=op.f("stream_offset_pkey")),
        comment="How far each partition is recorded; its row is the partition's lock.",
        postgresql_with={"fillfactor": "50"},
    )
    op.create_table(
        "dead_letter",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False, comment="the message's own time, a second"),
        sa.Column(
            "recorded_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("raw", sa.LargeBinary(), nullable=False, comment="the first MiB"),
        sa.PrimaryKeyConstraint("id", name=op.f("dead_letter_pkey")),
        sa.UniqueConstraint("topic", "partition", "offset", name="dead_letter_topic_partition_offset_key"),
        comment="Messages of which nothing could be read, each kept once.",
    )
    op.create_table(
        "dead_letter_replay",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("dead_letter_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "replayed_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("received", sa.Integer(), nullable=False),
        sa.Column("accepted", sa.Integer(), nullable=False),
        sa.Column("duplicate", sa.Integer(), nullable=False),
        sa.Column("rejected", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dead_letter_id"], ["dead_letter.id"], name=op.f("dead_letter_replay_dead_letter_id_fkey")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("dead_letter_replay_pkey")),
        comment="Dead letters that could be read after all; one that has a row here waits for nobody.",
    )
    op.create_index(
        op.f("dead_letter_replay_dead_letter_id_idx"), "dead_letter_replay", ["dead_letter_id"], unique=False
    )
    op.create_table(
        "early_beat",
        sa.Column("instance_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False, comment="earliest second that such a heartbeat named"),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("early_beat_pkey")),
        comment="Heartbeats dated more than five minutes after their receipt: set aside, they prove nothing.",
    )
    only_grows("dead_letter", "dead_letter_replay")
    may_change("stream_offset", "early_beat")
    op.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO gpu_billing_app")


def downgrade() -> None:
    raise NotImplementedError("the books only go forward; restore a backup")
