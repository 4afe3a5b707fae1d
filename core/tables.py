"""The one catalogue of tables, how their constraints are named, and the tables of keys.

A constraint without a name of its own cannot be changed by a later migration.
"""

from sqlalchemy import Column, DateTime, ForeignKey, LargeBinary, MetaData, Table, Text, func

metadata = MetaData(
    naming_convention={
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ck": "%(table_name)s_%(constraint_name)s_check",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
        "pk": "%(table_name)s_pkey",
    }
)

api_key = Table(
    "api_key", metadata,
    Column("id", Text, primary_key=True, comment="the part of the key that is no secret"),
    Column("name", Text, nullable=False),
    Column("scope", Text, nullable=False, comment="what it lets in: ingest"),
    Column("digest", LargeBinary, nullable=False, comment="HMAC-SHA256 of the key under the pepper"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("expires_at", DateTime(timezone=True), comment="null: never"),
    comment="Keys that programs show at the door. Only a hash is kept, and nothing is ever changed.",
)  # fmt: skip

api_key_revocation = Table(
    "api_key_revocation", metadata,
    Column("key_id", Text, ForeignKey("api_key.id"), primary_key=True),
    Column("revoked_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    comment="Keys taken out of use, for ever.",
)  # fmt: skip
