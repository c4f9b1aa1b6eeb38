"""Rendering a cached template against bare Jinja2, which bounds nothing and notes nothing.

Measured: processor time per rendering of a compiled template, the html of an ordinary order confirmation (a loop of
five items, conditions, filters, about 2 KB of output); ours through the renderer as preparation calls it, with its
look-up of the compiled template, its budget and its list of missing variables; theirs is `Template.render` of the same
source in a plain `jinja2.Environment(autoescape=True)`. Both write the same text.

What would make it lie: a template of text alone, which nobody has to look at; one that looks up what Jinja2 finds at
once (it asks for attributes first, and JSON has keys); a clock that is read more often than rendered.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial

import jinja2

from benchmarks.harness.figure import Figure, at_most, compare, interleave, medians
from benchmarks.harness.stand import Stand
from messaging.clock import boot_seconds
from messaging.templates.render import Renderer, Source

RENDERINGS = 1000
ROUNDS = 9

TEMPLATE = """\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Your order {{ order.number }}</title></head>
<body style="font-family: sans-serif; color: #222">
<h1>Thank you, {{ customer.name|title }}!</h1>
{% if order.express %}
<p>Your order <b>{{ order.number }}</b> goes out today by express.</p>
{% else %}
<p>Your order <b>{{ order.number }}</b> of {{ order.placed_at }} goes out within {{ order.days }} days.</p>
{% endif %}
<table style="width: 100%; border-collapse: collapse">
<tr><th align="left">Article</th><th align="right">Pieces</th><th align="right">Price</th></tr>
{% for line in order.lines %}
<tr style="background: {{ loop.cycle('#fff', '#f4f4f4') }}">
<td>{{ loop.index }}. {{ line.name }}{% if line.note %} <i>{{ line.note|truncate(40) }}</i>{% endif %}</td>
<td align="right">{{ line.pieces }}</td>
<td align="right">{{ "%.2f"|format(line.pieces * line.price) }} {{ order.currency }}</td>
</tr>
{% endfor %}
<tr><td colspan="2">Shipping</td><td align="right">{{ "%.2f"|format(order.shipping) }} {{ order.currency }}</td></tr>
<tr style="font-weight: bold">
<td colspan="2">Total</td><td align="right">{{ "%.2f"|format(order.total) }} {{ order.currency }}</td>
</tr>
</table>
{% if order.coupon is defined and order.coupon %}<p>Your coupon {{ order.coupon|upper }} was used.</p>{% endif %}
<p>We deliver to {{ customer.address.street }}, {{ customer.address.zip }} {{ customer.address.city|upper }}.</p>
<p>Questions? Write to <a href="mailto:{{ shop.mail }}">{{ shop.mail }}</a>, or call {{ shop.phone|default("us") }}.</p>
<p>You can send back what you do not like within {{ shop.days_to_return }} days; {% if order.total >= 50 %}we pay the
postage.{% else %}you pay the postage.{% endif %} How to do so stands on the sheet in the parcel.</p>
<p style="font-size: small">{{ shop.name }} | {{ shop.address|join(", ") }}</p>
</body>
</html>
"""

VARIABLES = {
    "customer": {
        "name": "ada o'brien",
        "address": {"street": "Lindenstraße 5", "zip": "10969", "city": "Berlin"},
    },
    "order": {
        "number": "A-2026-000417",
        "express": False,
        "placed_at": "2026-03-14 09:26",
        "days": 3,
        "currency": "EUR",
        "shipping": 4.9,
        "total": 171.35,
        "coupon": "spring",
        "lines": [
            {"name": "Tea & biscuits", "pieces": 2, "price": 12.5, "note": "with the large tin, wrapped as a present"},
            {"name": "Kettle, 1.5 l", "pieces": 1, "price": 39.95, "note": None},
            {"name": 'Cup "Aurora"', "pieces": 6, "price": 9.0, "note": None},
            {"name": "Sugar <brown>", "pieces": 3, "price": 2.5, "note": "out of the sale"},
            {"name": "Tray", "pieces": 1, "price": 40.0, "note": None},
        ],
    },
    "shop": {
        "name": "Tea House",
        "mail": "hello@shop.example",
        "days_to_return": 30,
        "address": ["Teestraße 1", "20457 Hamburg"],
    },
}


def run(stand: Stand) -> Iterator[Figure]:
    renderer = Renderer(max_chars=1_048_576, ticker=boot_seconds)
    columns = {"body_html": Source(TEMPLATE, escape=True, one_line=False)}
    bare = jinja2.Environment(autoescape=True, keep_trailing_newline=True).from_string(TEMPLATE)
    assert renderer.render(columns, VARIABLES).texts["body_html"] == bare.render(VARIABLES)
    results = medians(
        interleave(
            {
                "ours": partial(microseconds, partial(renderer.render, columns, VARIABLES)),
                "bare": partial(microseconds, partial(bare.render, VARIABLES)),
            },
            rounds=ROUNDS,
        )
    )
    yield compare("rendering a cached template", "us", results["ours"], results["bare"], "bare Jinja2", at_most(2))


def microseconds(render: Callable[[], object]) -> float:
    """Of one rendering."""
    started = time.thread_time()
    for _ in range(RENDERINGS):
        render()
    return (time.thread_time() - started) / RENDERINGS * 1e6
