"""How far each kind of pruning has come, so that a run that ended in the middle goes on there."""

from datetime import datetime

from sqlalchemy import BigInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from messaging.db.base import Base, Timestamp


class PruneProgress(Base):
    """One kind of rows, such as `attempts` or `bodies`."""

    __tablename__ = "prune_progress"

    kind: Mapped[str] = mapped_column(String(50), primary_key=True)
    #: Rows up to this id were looked at by the run that is under way, or by the last one.
    last_id: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: Rows this run removed or emptied.
    pruned: Mapped[int] = mapped_column(BigInteger, server_default="0")
    started_at: Mapped[datetime | None] = mapped_column(Timestamp)
    #: Null while a run is under way.
    finished_at: Mapped[datetime | None] = mapped_column(Timestamp)
