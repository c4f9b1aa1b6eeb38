"""How many rows of a table a transaction has read, as PostgreSQL itself counts them: what a list costs."""

from sqlalchemy import text
from sqlalchemy.orm import Session


def rows_read(session: Session, table: str) -> int:
    """Rows that this transaction has fetched so far, by whatever plan."""
    statement = text(
        "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables WHERE relname = :t"
    )
    return int(session.execute(statement, {"t": table}).scalar_one())
