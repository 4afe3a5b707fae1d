"""The tables of invoices. An invoice, a grant and a hold only ever come into being; the database refuses anything else.

Seconds are whole seconds since 1970 in UTC, months are year * 12 + month - 1, amounts exact decimals as text.
"""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    func,
)  # fmt: skip

from core.tables import metadata

invoice_series = Table(
    "invoice_series", metadata,
    Column("name", Text, primary_key=True),
    Column("year", Integer, primary_key=True),
    Column("last", Integer, nullable=False, comment="the last number given; its row is the lock of the series"),
)  # fmt: skip

invoice = Table(
    "invoice", metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("number", Text, nullable=False, unique=True),
    Column("series", Text, nullable=False),
    Column("year", Integer, nullable=False),
    Column("position", Integer, nullable=False, comment="gapless within series and year"),
    Column("account", Text, nullable=False),
    Column("month", Integer, nullable=False),
    Column("issue", Integer, nullable=False, comment="1, or one more than the void issue that it replaces"),
    Column("issued_at", BigInteger, nullable=False),
    Column("recorded_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("terms_number", Integer, nullable=False, comment="the highest version of terms that it saw"),
    Column("document", LargeBinary, nullable=False, comment="the invoice as canonical JSON"),
    Column("digest", LargeBinary, nullable=False, comment="SHA-256 over the digest before it in its series, and it"),
    UniqueConstraint("series", "year", "position", name="invoice_series_year_position_key"),
    UniqueConstraint("account", "month", "issue", name="invoice_account_month_key"),
)  # fmt: skip

credit_grant = Table(
    "credit_grant", metadata,
    Column("id", Text, primary_key=True),
    Column("account", Text, nullable=False, index=True),
    Column("kind", Text, nullable=False),
    Column("amount", Text, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("skus", ARRAY(Text), nullable=False),
    Column("first_month", Integer, nullable=False, comment="months before were invoiced before it was recorded"),
    Column("invoice_id", BigInteger, ForeignKey("invoice.id"), comment="the invoice that issued it"),
    Column("instance", Text, comment="of the rental that earned it"),
    Column("rental", BigInteger, comment="first second of that rental"),
    Column("earned_month", Integer),
)  # fmt: skip

grant_reduction = Table(
    "grant_reduction", metadata,
    Column("grant_id", Text, ForeignKey("credit_grant.id"), primary_key=True),
    Column("month", Integer, primary_key=True, comment="taken off the balance at its first second"),
    Column("amount", Text, nullable=False),
    Column("invoice_id", BigInteger, ForeignKey("invoice.id"), nullable=False),
)  # fmt: skip

close_hold = Table(
    "close_hold", metadata,
    Column("month", Integer, primary_key=True),
    Column("account", Text, primary_key=True),
    Column("held_at", BigInteger, nullable=False),
    Column("questions", Text, nullable=False, comment="what was open, as JSON"),
    comment="Accounts that a close of the month held; they are issued by a later close of that month.",
)  # fmt: skip
