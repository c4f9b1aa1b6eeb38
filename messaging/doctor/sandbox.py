"""Whether messages are kept from being sent, which in production is hardly meant."""

from messaging.doctor.findings import Finding, Findings, Level
from messaging.settings import Settings


def look_at_sandbox(settings: Settings) -> Findings:
    """Nothing where sandbox mode is off."""
    sandbox = settings.sandbox
    told = {
        "capture": "every message is kept and sent to nobody",
        "redirect": f"messages go to {', '.join(sandbox.redirect_to)} alone",
        "allowlist": f"only {len(sandbox.allow)} listed recipients and domains get messages",
    }
    if sandbox.mode not in told:
        return
    detail = f"SANDBOX__MODE is {sandbox.mode}: {told[sandbox.mode]}"
    if settings.env == "production":
        yield Finding("sandbox", Level.WARN, detail, "to send, set MESSAGING_SANDBOX__MODE=off and restart the workers")
    else:
        yield Finding("sandbox", Level.OK, detail)
