"""What one rendering may use up: time, and memory counted as it is asked for, not as it is given back.

Counting what is created and never what is freed bounds what is held, whatever a template keeps in its variables.
"""

from sys import getsizeof

from messaging.clock import Ticker
from messaging.templates.errors import Refused, TooLong

#: Items of one list, characters of one split text, numbers of one range.
MAX_ITEMS = 100_000
#: Octets that all columns together may create, beside those that come out.
BASE_OCTETS = 32 * 1024 * 1024
OCTETS_A_CHAR = 16
#: What an entry of a list is counted as: a reference, and a small object that was made for it.
ITEM_OCTETS = 64
#: What a turn of a loop and a call are counted as, so that what they make by themselves is counted too.
STEP_OCTETS = 4
CALL_OCTETS = 512
#: Macros and recursive loops within each other.
MAX_DEPTH = 50
#: Characters compared, or looked at again and again, by one call that cannot be interrupted: about 50 ms.
MAX_SEARCH = 50_000_000
#: A text in between may be this long even where little may come out.
MIN_TEXT_CHARS = 100_000


class Meter:
    """The time and memory of one rendering, all its columns together. Belongs to one thread.

    Each step of a loop, call, filter and operator passes here, so that nothing runs for long between two looks at the
    clock.
    """

    __slots__ = ("_deadline", "_depth", "_octets", "_seconds", "_ticker", "max_text_chars")

    def __init__(self, *, max_chars: int, seconds: float, ticker: Ticker) -> None:
        self._ticker = ticker
        self._seconds = seconds
        self._deadline = ticker() + seconds
        self._octets = BASE_OCTETS + OCTETS_A_CHAR * max_chars
        self._depth = 0
        #: Characters of any text a template makes, be it written or not.
        self.max_text_chars = max(max_chars, MIN_TEXT_CHARS)

    def check(self) -> None:
        """Look at the clock."""
        if self._ticker() > self._deadline:
            raise Refused(f"took longer than {self._seconds:g} s")

    def charge(self, octets: int) -> None:
        """Count memory, before or right after it is taken."""
        self._octets -= octets
        if self._octets < 0:
            raise Refused("needs too much memory")

    def step(self) -> bool:
        """One turn of a loop; True, so that it can stand in a condition."""
        self._octets -= STEP_OCTETS
        if self._octets < 0:
            raise Refused("needs too much memory")
        if self._ticker() > self._deadline:
            raise Refused(f"took longer than {self._seconds:g} s")
        return True

    def enter(self) -> None:
        """A call of a macro or of a recursive loop begins; `leave` ends it."""
        self.check()
        self.charge(CALL_OCTETS)
        if self._depth >= MAX_DEPTH:
            raise Refused(f"calls are nested more than {MAX_DEPTH} deep")
        self._depth += 1

    def leave(self) -> None:
        self._depth -= 1

    def allow_chars(self, chars: int) -> None:
        """Before a text of so many characters is made or worked on."""
        if chars > self.max_text_chars:
            raise Refused(f"makes or works on a text of more than {self.max_text_chars:,} characters")

    def allow_written(self, chars: int) -> None:
        """Before so many characters are written in one place."""
        if chars > self.max_text_chars:
            raise TooLong(f"writes more than {self.max_text_chars:,} characters")

    def allow_items(self, items: int) -> None:
        """Before a list of so many items is made; counts them."""
        if items > MAX_ITEMS:
            raise Refused(f"makes a list of more than {MAX_ITEMS:,} items")
        self.charge(ITEM_OCTETS * items)

    def allow_search(self, chars: int, sought: int) -> None:
        """Before a text is searched for another: the worst text takes the product of their lengths."""
        self.check()
        if chars * sought > MAX_SEARCH:
            raise Refused("searches a long text for another long text")

    def made(self, text: str) -> str:
        """The text that was just made, counted."""
        self.allow_chars(len(text))
        self.charge(getsizeof(text))
        return text
