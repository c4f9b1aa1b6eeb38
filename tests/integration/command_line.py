"""What the tests of the command line hand each other."""

from collections.abc import Callable

#: Exit code, standard output, standard error.
Answer = tuple[int, str, str]
#: Runs `messaging` with these arguments.
Run = Callable[..., Answer]
