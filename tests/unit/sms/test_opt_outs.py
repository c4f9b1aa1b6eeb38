"""Which messages ask for nothing more, and which take that back: the whole text, trimmed, in any case."""

import pytest

from messaging.sms.opt_outs import OptOut, opt_out_of


@pytest.mark.parametrize("text", ["STOP", "stop", " Stop\r\n", "STOPALL", "unsubscribe", "Cancel", "END", "quit"])
def test_words_that_stop(text: str) -> None:
    assert opt_out_of(text) is OptOut.STOP


@pytest.mark.parametrize("text", ["START", "start ", "Yes", "\tunstop"])
def test_words_that_start(text: str) -> None:
    assert opt_out_of(text) is OptOut.START


@pytest.mark.parametrize("text", ["", "  ", "stop it", "please stop", "STOP.", "yes please", "S T O P", "no"])
def test_everything_else_asks_for_nothing(text: str) -> None:
    assert opt_out_of(text) is None
