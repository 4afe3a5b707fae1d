"""Invoices, the credits they issue, and accounts that a close held."""

import sqlalchemy as sa
from alembic import op

from migrations.rights import may_change, only_grows

revision = "2026_12_02_invoices"
down_revision = "2026_12_01_ledger"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "close_hold",
        sa.Column("month", sa.Integer(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("held_at", sa.BigInteger(), nullable=False),
        sa.Column("questions", sa.Text(), nullable=False, comment="what was open, as JSON"),
        sa.PrimaryKeyConstraint("month", "account", name=op.f("close_hold_pkey")),
        comment="Accounts that a close of the month held; they are issued by a later close of that month.",
    )
    op.create_table(
        "invoice",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("number", sa.Text(), nullable=False),
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("year", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False, comment="gapless within series and year"),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("month", sa.Integer(), nullable=False),
        sa.Column("issue", sa.Integer(), nullable=False, comment="1, or one more than the void issue that it replaces"),
        sa.Column("issued_at", sa.BigInteger(), nullable=False),
        sa.Column(
            "recorded_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("terms_number", sa.Integer(), nullable=False, comment="the highest version of terms that it saw"),
        sa.Column("document", sa.LargeBinary(), nullable=False, comment="the invoice as canonical JSON"),
        sa.Column(
            "digest",
            sa.LargeBinary(),
            nullable=False,
            comment="SHA-256 over the digest before it in its series, and it",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("invoice_pkey")),
        sa.UniqueConstraint("account", "month", "issue", name="invoice_account_month_key"),
        sa.UniqueConstraint("number", name=op.f("invoice_number_key")),
        sa.UniqueConstraint("series", "year", "position", name="invoice_series_year_position_key"),
    )
    op.create_table(
        "invoice_series",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("year", sa.Integer(), nullable=False),
        sa.Column(
            "last", sa.Integer(), nullable=False, comment="the last number given; its row is the lock of the series"
        ),
        sa.PrimaryKeyConstraint("name", "year", name=op.f("invoice_series_pkey")),
    )
    op.create_table(
        "credit_grant",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("amount", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.Column("skus", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column(
            "first_month", sa.Integer(), nullable=False, comment="months before were invoiced before it was recorded"
        ),
        sa.Column("invoice_id", sa.BigInteger(), nullable=True, comment="the invoice that issued it"),
        sa.Column("instance", sa.Text(), nullable=True, comment="of the rental that earned it"),
        sa.Column("rental", sa.BigInteger(), nullable=True, comment="first second of that rental"),
        sa.Column("earned_month", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.id"], name=op.f("credit_grant_invoice_id_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("credit_grant_pkey")),
    )
    op.create_index(op.f("credit_grant_account_idx"), "credit_grant", ["account"], unique=False)
    op.create_table(
        "grant_reduction",
        sa.Column("grant_id", sa.Text(), nullable=False),
        sa.Column("month", sa.Integer(), nullable=False, comment="taken off the balance at its first second"),
        sa.Column("amount", sa.Text(), nullable=False),
        sa.Column("invoice_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["grant_id"], ["credit_grant.id"], name=op.f("grant_reduction_grant_id_fkey")),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.id"], name=op.f("grant_reduction_invoice_id_fkey")),
        sa.PrimaryKeyConstraint("grant_id", "month", name=op.f("grant_reduction_pkey")),
    )
    only_grows("invoice", "credit_grant", "grant_reduction", "close_hold")
    may_change("invoice_series")
    op.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO gpu_billing_app")


def downgrade() -> None:
    raise NotImplementedError("the books only go forward; restore a backup")
