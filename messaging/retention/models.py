"""How far each kind of pruning has come, so that a run that ended in the middle goes on there."""

from datetime import datetime

from sqlalchemy import BigInteger, String, Table
from sqlalchemy.orm import Mapped, mapped_column

from messaging.db.base import Base, Timestamp

#: By what workers that take the nightly run are registered.
MAINTENANCE = "maintenance"


class PruneProgress(Base):
    """One pass over a table, such as `attempts` or `bodies/mail`."""

    __tablename__ = "prune_progress"

    kind: Mapped[str] = mapped_column(String(50), primary_key=True)
    #: Rows up to this id were looked at, by this run or by those before it.
    last_id: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: Rows this run removed or emptied.
    pruned: Mapped[int] = mapped_column(BigInteger, server_default="0")
    started_at: Mapped[datetime | None] = mapped_column(Timestamp)
    #: Null while a run is under way.
    finished_at: Mapped[datetime | None] = mapped_column(Timestamp)


class PruneLeftover(Base):
    """A row that a pass went by, since its time had not come: looked at again by each run until it is done with."""

    __tablename__ = "prune_leftover"

    kind: Mapped[str] = mapped_column(String(50), primary_key=True)
    row_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)


PRUNE_PROGRESS: Table = PruneProgress.__table__  # type: ignore[assignment]
PRUNE_LEFTOVER: Table = PruneLeftover.__table__  # type: ignore[assignment]
