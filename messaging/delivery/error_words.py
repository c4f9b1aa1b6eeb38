"""What prose alone says of a failure: the last resort where no code decides, the same for every channel."""

from messaging.category import ErrorCategory

#: What the lower-cased text contains, first row first, with an example.
MESSAGE_WORDS: tuple[tuple[str, ErrorCategory], ...] = (
    ("rate limit", ErrorCategory.QUOTA),  # "Rate limit exceeded for sender"
    ("too many requests", ErrorCategory.QUOTA),  # "Too many requests, slow down"
    ("quota", ErrorCategory.QUOTA),  # "Daily quota reached"
    ("throttl", ErrorCategory.QUOTA),  # "Throttling failure: maximum sending rate exceeded"
    ("too many messages", ErrorCategory.QUOTA),  # "Too many messages from this host"
    ("unauthorized", ErrorCategory.AUTH),  # "Unauthorized sender"
    ("forbidden", ErrorCategory.AUTH),  # "Forbidden"
    ("invalid credentials", ErrorCategory.AUTH),  # "Invalid credentials given"
    ("authentication failed", ErrorCategory.AUTH),  # "Authentication failed: bad password"
    ("no such user", ErrorCategory.PERMANENT),  # "No such user here"
    ("user unknown", ErrorCategory.PERMANENT),  # "User unknown in virtual mailbox table"
    ("does not exist", ErrorCategory.PERMANENT),  # "The account that you tried to reach does not exist"
    ("invalid address", ErrorCategory.INVALID_INPUT),  # "Invalid address"
    ("malformed", ErrorCategory.INVALID_INPUT),  # "Malformed message"
    ("bad recipient", ErrorCategory.INVALID_INPUT),  # "Bad recipient address syntax"
    ("no recipient", ErrorCategory.INVALID_INPUT),  # "No recipients specified"
    ("timeout", ErrorCategory.TRANSIENT),  # "Timeout waiting for data"
    ("timed out", ErrorCategory.TRANSIENT),  # "Operation timed out"
    ("connection reset", ErrorCategory.TRANSIENT),  # "Connection reset by peer"
    ("unavailable", ErrorCategory.TRANSIENT),  # "Service unavailable"
    ("try again", ErrorCategory.TRANSIENT),  # "Please try again later"
)


def classify_words(text: str | None) -> ErrorCategory:
    """What prose says about trying again; UNKNOWN where no row of the table fits."""
    lowered = (text or "").lower()
    for words, category in MESSAGE_WORDS:
        if words in lowered:
            return category
    return ErrorCategory.UNKNOWN
