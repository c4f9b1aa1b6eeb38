"""The benchmark's text message, for all contenders."""

import json

TEXT = (
    "The Small Shop: thank you - your order 20417 leaves our house tomorrow. Track it at https://shop.example/o/20417"
)
SENDER = "+14155550100"
API_KEY = "infobip-api-key-0001"
HEADERS = {"Authorization": f"App {API_KEY}", "Content-Type": "application/json"}


def number(n: int) -> str:
    """A mobile number in Germany, each time another one."""
    return f"+49151{n % 10**8:08}"


def ready_body(to: str) -> bytes:
    """What an Infobip client posts for one message."""
    message = {
        "destinations": [{"to": to.removeprefix("+")}],
        "content": {"text": TEXT},
        "webhooks": {"callbackData": "1"},
        "sender": SENDER,
    }
    return json.dumps({"messages": [message]}).encode()
