"""What the application's role may do with a table: add to it, or change it too."""

from alembic import op


def only_grows(*tables: str) -> None:
    """Refuse UPDATE, DELETE and TRUNCATE for every role, the owner included, and give the application the rest."""
    op.execute("""
        CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'table % only grows: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'P0001';
        END $$
    """)
    for table in tables:
        op.execute(f"""
            CREATE TRIGGER {table}_only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
            FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()
        """)
        op.execute(f"GRANT SELECT, INSERT ON {table} TO gpu_billing_app")


def may_change(*tables: str) -> None:
    """Let the application read and write tables that can be made again from those that only grow."""
    for table in tables:
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO gpu_billing_app")
