"""The tables of the ledger. Seconds are whole seconds since 1970 in UTC, days are days since 1970 in the account zone.

``event``, ``entry``, ``batch``, ``reject``, ``conflict``, ``dead_letter`` and ``terms_version`` only ever grow; the
database refuses anything else. ``head``, ``checkpoint``, ``proof_run``, ``birth``, ``override``, ``finding``,
``rerating`` and ``usage_day`` can all be made again from them. Whatever is unique is unique within an instance or a
door, so that the tables can be spread.
"""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Sequence,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)  # fmt: skip

from core.tables import metadata

event_seq = Sequence("event_seq", metadata=metadata)
entry_id_seq = Sequence("entry_id_seq", metadata=metadata)

door = Table(
    "door", metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    comment="Where batches come from: a partition, the HTTP door, a file. Each has a chain of its own.",
)  # fmt: skip

batch = Table(
    "batch", metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("door_id", Integer, ForeignKey("door.id"), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("recorded_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("received", Integer, nullable=False),
    Column("accepted", Integer, nullable=False),
    Column("duplicate", Integer, nullable=False),
    Column("rejected", Integer, nullable=False),
    Column("heartbeats", Integer, nullable=False, comment="of the accepted ones"),
    Column("first_entry", BigInteger, nullable=False, comment="the entries of the batch are [first, last)"),
    Column("last_entry", BigInteger, nullable=False),
    Column("refused", LargeBinary, nullable=False, comment="SHA-256 over its rejects and conflicts"),
    Column("beats", LargeBinary, nullable=False, comment="SHA-256 of the heartbeats"),
    Column("digest", LargeBinary, nullable=False, comment="chain hash over the previous one and all that it added"),
    UniqueConstraint("door_id", "number", name="batch_door_id_number_key"),
    CheckConstraint("received = accepted + duplicate + rejected", name="adds_up"),
    comment="One transaction of a door. Its events and entries carry its id.",
)  # fmt: skip

instance = Table(
    "instance", metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("subject", Text, nullable=False, unique=True),
)  # fmt: skip

series = Table(
    "series", metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("account", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("sku", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Column("region", Text, nullable=False),
    UniqueConstraint("account", "project", "sku", "plan", "region", name="series_account_key"),
)  # fmt: skip

price = Table(
    "price", metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("amount", Text, nullable=False, unique=True, comment="exact: 3 or 9/5"),
)  # fmt: skip

event = Table(
    "event", metadata,
    Column("seq", BigInteger, primary_key=True),
    Column("identity", Uuid, nullable=False, unique=True, comment="BLAKE2b of source and id, 16 bytes"),
    Column("batch_id", BigInteger, nullable=False),
    Column("instance_id", Integer, nullable=False),
    Column("second", BigInteger, nullable=False),
    Column("kind", SmallInteger, nullable=False),
    Column("name", Text, comment="the session or incident that it names"),
    Column("raw", LargeBinary, nullable=False, comment="as it came"),
    Index("event_instance_second_idx", "instance_id", "second"),
    Index(
        "event_instance_name_idx", "instance_id", "name",
        postgresql_where=text("name IS NOT NULL AND kind IN (1, 3, 10, 20, 33)"),
    ),
    Index("event_judged_idx", "instance_id", "name", postgresql_where=text("kind = 33")),
    Index("event_batch_idx", "batch_id", postgresql_using="brin"),
)  # fmt: skip

decision = Table(
    "decision", metadata,
    Column("seq", BigInteger, primary_key=True),
    Column("target", Uuid, nullable=False, index=True, comment="identity of the event meant"),
    comment="Which event a person's decision speaks of.",
)  # fmt: skip

entry = Table(
    "entry", metadata,
    Column("id", BigInteger, primary_key=True),
    Column("batch_id", BigInteger, nullable=False),
    Column("instance_id", Integer, nullable=False),
    Column("series_id", Integer, nullable=False),
    Column("price_id", Integer, nullable=False),
    Column("kind", SmallInteger, nullable=False),
    Column("day", Integer, nullable=False),
    Column("start", BigInteger, nullable=False),
    Column("end", BigInteger, nullable=False),
    Column("quantity", BigInteger, nullable=False, comment="card-seconds, packs or card-days; negative in a reversal"),
    Column("run", BigInteger, nullable=False, comment="start of the session, overlaps merged"),
    Column("pack_start", BigInteger),
    Column("pack_seconds", Integer),
    Column("reverses", BigInteger, comment="the entry that this one takes back"),
    Column("cards", Text, nullable=False),
    Column("evidence", ARRAY(BigInteger), nullable=False, comment="numbers of the events that it follows from"),
    Index("entry_instance_end_idx", "instance_id", "end"),
    Index("entry_reverses_idx", "reverses", unique=True, postgresql_where=text("reverses IS NOT NULL")),
    Index("entry_padding_idx", "instance_id", "run", postgresql_where=text("kind = 16")),
    Index("entry_batch_idx", "batch_id", postgresql_using="brin"),
)  # fmt: skip

usage_day = Table(
    "usage_day", metadata,
    Column("batch_id", BigInteger, nullable=False),
    Column("series_id", Integer, nullable=False),
    Column("price_id", Integer, nullable=False),
    Column("kind", SmallInteger, nullable=False),
    Column("day", Integer, nullable=False),
    Column("quantity", BigInteger, nullable=False),
    Index("usage_day_series_day_idx", "series_id", "day"),
    comment="Daily usage as deltas by batch (0: compacted); a figure is the sum of its rows.",
)  # fmt: skip

account_instance = Table(
    "account_instance", metadata,
    Column("account", Text, primary_key=True),
    Column("instance_id", Integer, primary_key=True),
    comment="Which instances an account ever had.",
)  # fmt: skip

head = Table(
    "head", metadata,
    Column("instance_id", Integer, primary_key=True),
    Column("version", BigInteger, nullable=False, comment="the batch that wrote it last"),
    Column("second", BigInteger, nullable=False, comment="of its latest fact"),
    Column("posted", BigInteger, nullable=False, comment="the ledger has its entries up to here"),
    Column("facts", SmallInteger, nullable=False, comment="since the latest checkpoint"),
    Column("beats", Boolean, nullable=False, comment="whether it ever sent a heartbeat"),
    Column("running", Boolean, nullable=False, comment="whether an open remainder may exist"),
    Column("state", LargeBinary, nullable=False),
    postgresql_with={"fillfactor": "50"},
    comment="Where each instance stands; its row is the instance's lock.",
)  # fmt: skip

checkpoint = Table(
    "checkpoint", metadata,
    Column("instance_id", Integer, primary_key=True),
    Column("second", BigInteger, primary_key=True),
    Column("state", LargeBinary, nullable=False),
)  # fmt: skip

proof_run = Table(
    "proof_run", metadata,
    Column("instance_id", Integer, primary_key=True),
    Column("session", Text, primary_key=True, comment="empty for the unnamed session"),
    Column("first", BigInteger, primary_key=True),
    Column("last", BigInteger, nullable=False),
    comment="Runs of heartbeats; never a row for each.",
)  # fmt: skip

birth = Table(
    "birth", metadata,
    Column("instance_id", Integer, primary_key=True),
    Column("terms", Text, primary_key=True, comment="the full description as canonical JSON"),
    Column("second", BigInteger, nullable=False, comment="earliest heartbeat that gave it"),
)  # fmt: skip

override = Table(
    "override", metadata,
    Column("seq", BigInteger, primary_key=True, comment="the event that no longer speaks as it came"),
    Column("instance_id", Integer, nullable=False, index=True),
    Column("second", BigInteger, comment="of what stands in its place, like all that follows; null: withdrawn"),
    Column("kind", SmallInteger),
    Column("name", Text),
    Column("raw", LargeBinary),
)  # fmt: skip

conflict = Table(
    "conflict", metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("identity", Uuid, nullable=False),
    Column("digest", LargeBinary, nullable=False, comment="SHA-256 of the canonical body"),
    Column("batch_id", BigInteger, nullable=False),
    Column("instance_id", Integer, comment="of the subject that this body names"),
    Column("raw", LargeBinary, nullable=False),
    UniqueConstraint("identity", "digest", name="conflict_identity_digest_key"),
    comment="Other bodies of known identities, each kept once.",
)  # fmt: skip

reject = Table(
    "reject", metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("digest", LargeBinary, nullable=False, unique=True, comment="SHA-256 of the bytes as they came"),
    Column("batch_id", BigInteger, nullable=False),
    Column("position", Text, nullable=False, comment="where the door saw it: line 12 of a file, an offset"),
    Column("reason", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("event_id", Text),
    Column("length", BigInteger, nullable=False),
    Column("raw", LargeBinary, nullable=False, comment="the first 64 KiB"),
    comment="What could not be read, each kept once.",
)  # fmt: skip

finding = Table(
    "finding", metadata,
    Column("instance_id", Integer, nullable=False),
    Column("second", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("detail", Text, nullable=False),
    Index("finding_instance_second_idx", "instance_id", "second"),
    comment="What a person should see about accepted events; they come and go as facts arrive.",
)  # fmt: skip

rerating = Table(
    "rerating", metadata,
    Column("instance_id", Integer, primary_key=True, autoincrement=False),
    Column("since", BigInteger, nullable=False),
    comment="Instances that new terms touch and that wait for being rated again from an instant on.",
)  # fmt: skip

terms_version = Table(
    "terms_version", metadata,
    Column("number", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False, comment="price book or account"),
    Column("digest", LargeBinary, nullable=False, comment="SHA-256 of the canonical form"),
    Column("correction", Boolean, nullable=False, comment="also changes months that are closed"),
    Column("recorded_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("canonical", LargeBinary, nullable=False),
    Index("terms_version_name_idx", "kind", "name"),
)  # fmt: skip

month_pin = Table(
    "month_pin", metadata,
    Column("month", Integer, primary_key=True),
    Column("terms_number", Integer, nullable=False, comment="the highest version that the closed month sees"),
    Column("closed_at", BigInteger, nullable=False),
)  # fmt: skip

stream_offset = Table(
    "stream_offset", metadata,
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False, comment="of the first message not recorded yet"),
    Column("epoch", BigInteger, nullable=False, comment="one more with each consumer that takes over"),
    Column("owner", Text, nullable=False, comment="the consumer that took over last"),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    postgresql_with={"fillfactor": "50"},
    comment="How far each partition is recorded; its row is the partition's lock.",
)  # fmt: skip

dead_letter = Table(
    "dead_letter", metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("topic", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("key", LargeBinary),
    Column("reason", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("received_at", BigInteger, nullable=False, comment="the message's own time, a second"),
    Column("recorded_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("length", BigInteger, nullable=False),
    Column("raw", LargeBinary, nullable=False, comment="the first MiB"),
    UniqueConstraint("topic", "partition", "offset", name="dead_letter_topic_partition_offset_key"),
    comment="Messages of which nothing could be read, each kept once.",
)  # fmt: skip

dead_letter_replay = Table(
    "dead_letter_replay", metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("dead_letter_id", BigInteger, ForeignKey("dead_letter.id"), nullable=False, index=True),
    Column("replayed_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("received", Integer, nullable=False),
    Column("accepted", Integer, nullable=False),
    Column("duplicate", Integer, nullable=False),
    Column("rejected", Integer, nullable=False),
    comment="Dead letters that could be read after all; one that has a row here waits for nobody.",
)  # fmt: skip

early_beat = Table(
    "early_beat", metadata,
    Column("instance_id", Integer, primary_key=True, autoincrement=False),
    Column("first", BigInteger, nullable=False, comment="earliest second that such a heartbeat named"),
    Column("last", BigInteger, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    comment="Heartbeats dated more than five minutes after their receipt: set aside, they prove nothing.",
)  # fmt: skip
