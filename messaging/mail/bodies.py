"""Which bodies a direct send has (`send.md` section 4.2). Knows no MIME."""

from messaging.requests import BodyMode


class BodyModeError(ValueError):
    """The declared mode does not fit the given bodies."""

    def __init__(self, field: str, reason: str) -> None:
        #: Name of the request's field that is to blame.
        self.field = field
        self.reason = reason
        super().__init__(f"{field} {reason}")


class NoBody(BodyModeError):
    """Neither body was given: a template's are used, where one is named."""


def resolve_direct(
    declared: BodyMode | None, body_html: str | None, body_text: str | None
) -> tuple[BodyMode, str | None, str | None]:
    """Mode, html and text of a mail whose bodies were handed in; a blank body counts as missing.

    `HTML_WITH_DERIVED_PLAIN` without a text: it is derived at preparation, as html can take seconds and the caller's
    transaction is open.

    Raises: BodyModeError, when the mode needs a body that is missing; NoBody, when both are.
    """
    html_given = body_html if body_html is not None and body_html.strip() else None
    text_given = body_text if body_text is not None and body_text.strip() else None
    if html_given is None and text_given is None:
        raise NoBody("text_body", "is blank, and so is html_body; no template is named either")
    if declared is None:
        if html_given is None:
            return BodyMode.PLAIN, None, text_given
        if text_given is None:
            return BodyMode.HTML, html_given, None
        return BodyMode.HTML_WITH_AUTHORED_PLAIN, html_given, text_given
    if declared is BodyMode.PLAIN:
        if text_given is None:
            raise BodyModeError("body_mode", "needs a text_body")
        return BodyMode.PLAIN, None, text_given
    if html_given is None:
        raise BodyModeError("body_mode", "needs an html_body")
    if declared is BodyMode.HTML:
        return BodyMode.HTML, html_given, None
    if text_given is not None:
        return declared, html_given, text_given
    return BodyMode.HTML_WITH_DERIVED_PLAIN, html_given, None
