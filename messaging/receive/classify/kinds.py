"""How a delivery ended, from the action and the codes that a report gives (`receive.md` 12.2)."""

from messaging.receive.vocabulary import BounceKind

#: RFC 3464, 2.3.3.
ACTIONS = ("failed", "delayed", "delivered", "relayed", "expanded")
#: The action of a report that gives none.
ACTION_OF = {
    BounceKind.HARD: "failed",
    BounceKind.SOFT: "failed",
    BounceKind.DELAYED: "delayed",
    BounceKind.SUCCESS: "delivered",
}
_BY_CLASS = {"5": BounceKind.HARD, "4": BounceKind.DELAYED, "2": BounceKind.SUCCESS}


def kind(action: str | None, status: str | None, reply_code: str | None) -> BounceKind:
    """The kind of one recipient; the enhanced code counts before the reply code."""
    class_ = (status or reply_code or "")[:1]
    if action == "failed":
        return BounceKind.SOFT if class_ == "4" else BounceKind.HARD
    if action == "delayed":
        return BounceKind.DELAYED
    if action is not None:
        return BounceKind.SUCCESS
    return _BY_CLASS.get(class_, BounceKind.HARD)
