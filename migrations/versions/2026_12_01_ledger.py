"""The ledger: events and entries that only grow, and what can be made again from them."""

import sqlalchemy as sa
from alembic import op

from migrations.rights import may_change, only_grows

revision = "2026_12_01_ledger"
down_revision = None
branch_labels = None
depends_on = None

ONLY_GROW = (
    "door",
    "batch",
    "instance",
    "series",
    "price",
    "event",
    "decision",
    "entry",
    "account_instance",
    "conflict",
    "reject",
    "terms_version",
)
CHANGE = ("usage_day", "head", "checkpoint", "proof_run", "birth", "override", "finding", "rerating", "month_pin")


def upgrade() -> None:
    op.execute(sa.schema.CreateSequence(sa.Sequence("event_seq")))
    op.execute(sa.schema.CreateSequence(sa.Sequence("entry_id_seq")))
    op.create_table(
        "account_instance",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("instance_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("account", "instance_id", name=op.f("account_instance_pkey")),
        comment="Which instances an account ever had.",
    )
    op.create_table(
        "birth",
        sa.Column("instance_id", sa.Integer(), nullable=False),
        sa.Column("terms", sa.Text(), nullable=False, comment="the full description as canonical JSON"),
        sa.Column("second", sa.BigInteger(), nullable=False, comment="earliest heartbeat that gave it"),
        sa.PrimaryKeyConstraint("instance_id", "terms", name=op.f("birth_pkey")),
    )
    op.create_table(
        "checkpoint",
        sa.Column("instance_id", sa.Integer(), nullable=False),
        sa.Column("second", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", "second", name=op.f("checkpoint_pkey")),
    )
    op.create_table(
        "conflict",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("identity", sa.Uuid(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="SHA-256 of the canonical body"),
        sa.Column("batch_id", sa.BigInteger(), nullable=False),
        sa.Column("instance_id", sa.Integer(), nullable=True, comment="of the subject that this body names"),
        sa.Column("raw", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("conflict_pkey")),
        sa.UniqueConstraint("identity", "digest", name="conflict_identity_digest_key"),
        comment="Other bodies of known identities, each kept once.",
    )
    op.create_table(
        "decision",
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("target", sa.Uuid(), nullable=False, comment="identity of the event meant"),
        sa.PrimaryKeyConstraint("seq", name=op.f("decision_pkey")),
        comment="Which event a person's decision speaks of.",
    )
    op.create_index(op.f("decision_target_idx"), "decision", ["target"], unique=False)
    op.create_table(
        "door",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("door_pkey")),
        sa.UniqueConstraint("name", name=op.f("door_name_key")),
        comment="Where batches come from: a partition, the HTTP door, a file. Each has a chain of its own.",
    )
    op.create_table(
        "entry",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("batch_id", sa.BigInteger(), nullable=False),
        sa.Column("instance_id", sa.Integer(), nullable=False),
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("price_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column(
            "quantity",
            sa.BigInteger(),
            nullable=False,
            comment="card-seconds, packs or card-days; negative in a reversal",
        ),
        sa.Column("run", sa.BigInteger(), nullable=False, comment="start of the session, overlaps merged"),
        sa.Column("pack_start", sa.BigInteger(), nullable=True),
        sa.Column("pack_seconds", sa.Integer(), nullable=True),
        sa.Column("reverses", sa.BigInteger(), nullable=True, comment="the entry that this one takes back"),
        sa.Column("cards", sa.Text(), nullable=False),
        sa.Column(
            "evidence", sa.ARRAY(sa.BigInteger()), nullable=False, comment="numbers of the events that it follows from"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("entry_pkey")),
    )
    op.create_index("entry_batch_idx", "entry", ["batch_id"], unique=False, postgresql_using="brin")
    op.create_index("entry_instance_end_idx", "entry", ["instance_id", "end"], unique=False)
    op.create_index(
        "entry_padding_idx", "entry", ["instance_id", "run"], unique=False, postgresql_where=sa.text("kind = 16")
    )
    op.create_index(
        "entry_reverses_idx", "entry", ["reverses"], unique=True, postgresql_where=sa.text("reverses IS NOT NULL")
    )
    op.create_table(
        "event",
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("identity", sa.Uuid(), nullable=False, comment="BLAKE2b of source and id, 16 bytes"),
        sa.Column("batch_id", sa.BigInteger(), nullable=False),
        sa.Column("instance_id", sa.Integer(), nullable=False),
        sa.Column("second", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True, comment="the session or incident that it names"),
        sa.Column("raw", sa.LargeBinary(), nullable=False, comment="as it came"),
        sa.PrimaryKeyConstraint("seq", name=op.f("event_pkey")),
        sa.UniqueConstraint("identity", name=op.f("event_identity_key")),
    )
    op.create_index("event_batch_idx", "event", ["batch_id"], unique=False, postgresql_using="brin")
    op.create_index(
        "event_instance_name_idx",
        "event",
        ["instance_id", "name"],
        unique=False,
        postgresql_where=sa.text("name IS NOT NULL AND kind IN (1, 3, 10, 20, 33)"),
    )
    op.create_index("event_instance_second_idx", "event", ["instance_id", "second"], unique=False)
    op.create_index(
        "event_judged_idx", "event", ["instance_id", "name"], unique=False, postgresql_where=sa.text("kind = 33")
    )
    op.create_table(
        "finding",
        sa.Column("instance_id", sa.Integer(), nullable=False),
        sa.Column("second", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        comment="What a person should see about accepted events; they come and go as facts arrive.",
    )
    op.create_index("finding_instance_second_idx", "finding", ["instance_id", "second"], unique=False)
    op.create_table(
        "head",
        sa.Column("instance_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False, comment="the batch that wrote it last"),
        sa.Column("second", sa.BigInteger(), nullable=False, comment="of its latest fact"),
        sa.Column("posted", sa.BigInteger(), nullable=False, comment="the ledger has its entries up to here"),
        sa.Column("facts", sa.SmallInteger(), nullable=False, comment="since the latest checkpoint"),
        sa.Column("beats", sa.Boolean(), nullable=False, comment="whether it ever sent a heartbeat"),
        sa.Column("running", sa.Boolean(), nullable=False, comment="whether an open remainder may exist"),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("head_pkey")),
        comment="Where each instance stands; its row is the instance's lock.",
        postgresql_with={"fillfactor": "50"},
    )
    op.create_table(
        "instance",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("instance_pkey")),
        sa.UniqueConstraint("subject", name=op.f("instance_subject_key")),
    )
    op.create_table(
        "month_pin",
        sa.Column("month", sa.Integer(), nullable=False),
        sa.Column(
            "terms_number", sa.Integer(), nullable=False, comment="the highest version that the closed month sees"
        ),
        sa.Column("closed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("month", name=op.f("month_pin_pkey")),
    )
    op.create_table(
        "override",
        sa.Column("seq", sa.BigInteger(), nullable=False, comment="the event that no longer speaks as it came"),
        sa.Column("instance_id", sa.Integer(), nullable=False),
        sa.Column(
            "second",
            sa.BigInteger(),
            nullable=True,
            comment="of what stands in its place, like all that follows; null: withdrawn",
        ),
        sa.Column("kind", sa.SmallInteger(), nullable=True),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("raw", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("override_pkey")),
    )
    op.create_index(op.f("override_instance_id_idx"), "override", ["instance_id"], unique=False)
    op.create_table(
        "price",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("amount", sa.Text(), nullable=False, comment="exact: 3 or 9/5"),
        sa.PrimaryKeyConstraint("id", name=op.f("price_pkey")),
        sa.UniqueConstraint("amount", name=op.f("price_amount_key")),
    )
    op.create_table(
        "proof_run",
        sa.Column("instance_id", sa.Integer(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False, comment="empty for the unnamed session"),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", "session", "first", name=op.f("proof_run_pkey")),
        comment="Runs of heartbeats; never a row for each.",
    )
    op.create_table(
        "reject",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="SHA-256 of the bytes as they came"),
        sa.Column("batch_id", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Text(), nullable=False, comment="where the door saw it: line 12 of a file, an offset"),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=True),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("raw", sa.LargeBinary(), nullable=False, comment="the first 64 KiB"),
        sa.PrimaryKeyConstraint("id", name=op.f("reject_pkey")),
        sa.UniqueConstraint("digest", name=op.f("reject_digest_key")),
        comment="What could not be read, each kept once.",
    )
    op.create_table(
        "series",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("sku", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("series_pkey")),
        sa.UniqueConstraint("account", "project", "sku", "plan", "region", name="series_account_key"),
    )
    op.create_table(
        "rerating",
        sa.Column("instance_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("rerating_pkey")),
        comment="Instances that new terms touch and that wait for being rated again from an instant on.",
    )
    op.create_table(
        "terms_version",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False, comment="price book or account"),
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="SHA-256 of the canonical form"),
        sa.Column("correction", sa.Boolean(), nullable=False, comment="also changes months that are closed"),
        sa.Column(
            "recorded_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("canonical", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("terms_version_pkey")),
    )
    op.create_index("terms_version_name_idx", "terms_version", ["kind", "name"], unique=False)
    op.create_table(
        "usage_day",
        sa.Column("batch_id", sa.BigInteger(), nullable=False),
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("price_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("quantity", sa.BigInteger(), nullable=False),
        comment="Daily usage as deltas by batch (0: compacted); a figure is the sum of its rows.",
    )
    op.create_index("usage_day_series_day_idx", "usage_day", ["series_id", "day"], unique=False)
    op.create_table(
        "batch",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("door_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column(
            "recorded_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("received", sa.Integer(), nullable=False),
        sa.Column("accepted", sa.Integer(), nullable=False),
        sa.Column("duplicate", sa.Integer(), nullable=False),
        sa.Column("rejected", sa.Integer(), nullable=False),
        sa.Column("heartbeats", sa.Integer(), nullable=False, comment="of the accepted ones"),
        sa.Column("first_entry", sa.BigInteger(), nullable=False, comment="the entries of the batch are [first, last)"),
        sa.Column("last_entry", sa.BigInteger(), nullable=False),
        sa.Column("refused", sa.LargeBinary(), nullable=False, comment="SHA-256 over its rejects and conflicts"),
        sa.Column("beats", sa.LargeBinary(), nullable=False, comment="SHA-256 of the heartbeats"),
        sa.Column(
            "digest", sa.LargeBinary(), nullable=False, comment="chain hash over the previous one and all that it added"
        ),
        sa.CheckConstraint("received = accepted + duplicate + rejected", name=op.f("batch_adds_up_check")),
        sa.ForeignKeyConstraint(["door_id"], ["door.id"], name=op.f("batch_door_id_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("batch_pkey")),
        sa.UniqueConstraint("door_id", "number", name="batch_door_id_number_key"),
        comment="One transaction of a door. Its events and entries carry its id.",
    )
    only_grows(*ONLY_GROW)
    op.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO gpu_billing_app")
    may_change(*CHANGE)


def downgrade() -> None:
    raise NotImplementedError("the books only go forward; restore a backup")
