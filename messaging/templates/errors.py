"""Why a template was refused or its rendering ended: a place and a reason, never a variable's value."""

#: Longest reason that is repeated; a template's own text may be part of it.
MAX_REASON_CHARS = 300


class TemplateError(ValueError):
    """A template that cannot be compiled, or asks for what templates may not have; refused when it is saved."""

    def __init__(self, column: str, line: int, reason: str) -> None:
        #: Name of the column the template stands in.
        self.column = column
        #: From 1.
        self.line = line
        self.reason = reason[:MAX_REASON_CHARS]
        super().__init__(f"{column}, line {line}: {self.reason}")


class RenderError(ValueError):
    """A rendering that failed, as it would fail every time."""

    def __init__(self, column: str, line: int | None, variable: str | None, reason: str) -> None:
        self.column = column
        #: From 1; None when no line is to blame, as with a text that grew too long.
        self.line = line
        #: The variable it failed at, dotted as the template asked for it; None when none is to blame.
        self.variable = variable
        self.reason = reason[:MAX_REASON_CHARS]
        place = column if line is None else f"{column}, line {line}"
        at = "" if variable is None else f" ({variable})"
        super().__init__(f"{place}: {self.reason}{at}")


class RenderedTooLong(RenderError):
    """The text that comes out is longer than a text may be."""


class Malformed(Exception):
    """Raised by the compiler; whoever knows the column makes it a `TemplateError` or a `RenderError`."""

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        self.reason = reason
        super().__init__(f"line {line}: {reason}")


class Refused(Exception):
    """Raised inside a rendering; the renderer adds the place."""

    def __init__(self, reason: str, *, variable: str | None = None, operation: str | None = None) -> None:
        self.reason = reason
        self.variable = variable
        #: The filter that failed, by which the renderer finds the variable it was applied to.
        self.operation = operation
        super().__init__(reason)


class TooLong(Refused):
    """A text of more characters than may come out."""
