"""The two roles of the database: who owns the tables, and who works with them.

The application may only add to events and entries, so it works as a role that cannot do more, and a slip in its code
cannot either. Migrations run as the owner.
"""

OWNER = "gpu_billing"
APPLICATION = "gpu_billing_app"
