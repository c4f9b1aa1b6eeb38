"""Coverage-guided fuzzing of reading a mail, where atheris is installed: `python -m tests.unit.receive.fuzzer --help`.

Arguments are libFuzzer's: `-max_total_time=60 -max_len=20000 FOLDER_OF_MAILS...`. What raises, or takes longer than two
seconds, ends the run and is written down as a file.
"""

import json
import sys
import time

import atheris

with atheris.instrument_imports(include=["messaging.receive"]):
    from messaging.receive.classify.chain import classify
    from messaging.receive.classify.summary import summarise
    from messaging.receive.parse import ParseLimits, parse, parse_envelope
from messaging.receive.vocabulary import TruncationReason

MAX_SECONDS = 2.0
LIMITS = ParseLimits()


def read(octets: bytes) -> None:
    """A whole mail, and its header block alone."""
    began = time.process_time()
    mail = parse(octets, LIMITS)
    assert mail.truncation_reason is not TruncationReason.PARSE_FAILED, "the parser gave up"
    for each in (mail, parse_envelope(octets, LIMITS)):
        json.dumps(summarise(classify(each))).encode()
    taken = time.process_time() - began
    assert taken < MAX_SECONDS, f"{len(octets)} octets took {taken:.1f} s"


if __name__ == "__main__":
    atheris.Setup(sys.argv, read)
    atheris.Fuzz()
