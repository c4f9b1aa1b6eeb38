"""The one mail everybody sends: 2 KB of html and text, a shop's receipt, to one recipient, another one each time."""

from email.message import EmailMessage
from email.policy import SMTP

SENDER = "orders@shop.example"
SUBJECT = "Your order 20417 is on its way"

LINES = [
    ("Kaffeemühle Modell 3, schwarz", 1, "89.00"),
    ("Filterpapier Größe 4, 100 Stück", 2, "7.80"),
    ("Espresso Röstung Süd, 1 kg", 1, "24.50"),
    ("Reinigungstabletten, 10 Stück", 1, "11.90"),
    ("Milchkännchen 0,6 l, Edelstahl", 1, "19.00"),
]
_INTRO = (
    "Thank you for your order. We have packed it today and handed it to the carrier; it should be with you in two to "
    "three working days. You can follow the parcel on your account page, and we write again as soon as it is delivered."
)
_RETURNS = (
    "You may return anything within thirty days of its arrival, unused and in its box, and we pay the postage. Ask for "
    "the label on your account page, or answer this mail: a person reads it."
)

TEXT = "\n".join(
    [
        "Hello,",
        "",
        _INTRO,
        "",
        *(f"{count} x {name}: {price} EUR" for name, count, price in LINES),
        "",
        "Total: 160.00 EUR, paid by card.",
        "",
        _RETURNS,
        "",
        "Kind regards, your shop",
    ]
)
HTML = "\n".join(
    [
        "<!DOCTYPE html><html><head><title>Your order</title></head>",
        '<body style="font-family: sans-serif; color: #222222">',
        f"<h1>Your order 20417</h1><p>Hello,</p><p>{_INTRO}</p>",
        '<table style="border-collapse: collapse; width: 100%">',
        *(f"<tr><td>{count} x</td><td>{name}</td><td>{price} EUR</td></tr>" for name, count, price in LINES),
        "</table>",
        "<p>Total: <b>160.00 EUR</b>, paid by card.</p>",
        f'<p style="font-size: small; color: #666666">{_RETURNS}</p>',
        '<p><a href="https://shop.example/orders/20417">Follow your parcel</a></p>',
        "<p>Kind regards, your shop</p></body></html>",
    ]
)


def recipient(number: int) -> str:
    """Where the mail with this number goes."""
    return f"customer{number}@customers.example"


def ready_bytes(to: str) -> bytes:
    """The finished message, as somebody would hand it to bare `smtplib`."""
    message = EmailMessage(policy=SMTP)
    message["From"], message["To"], message["Subject"] = SENDER, to, SUBJECT
    message["Date"] = "Mon, 30 Nov 2026 12:00:00 +0000"
    message["Message-ID"] = f"<{to}>"
    message.set_content(TEXT, cte="quoted-printable")
    message.add_alternative(HTML, subtype="html", cte="quoted-printable")
    return message.as_bytes()
