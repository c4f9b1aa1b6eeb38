"""Templates that would take the worker's time or memory, or reach what is not theirs."""

from typing import Any

#: A text of 100,000 characters and one of a million, without writing them out.
LONG = "{% set t = 'x' * 100000 %}"
LONGEST = "{% set t = 'x' * 1000000 %}"
#: A list of lists, 2 ** 60 when written out.
DOUBLED = (
    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{% set x = ns.x %}"
)
#: The same once more: equal, and not the same objects.
DOUBLED_TWICE = DOUBLED + "{% set ns.x = [1] %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
NUMBERS = "{% set n = range(100000)|list %}"
TEXTS_BY_NAME = "{% set d = {" + ", ".join(f"'k{n}': t" for n in range(500)) + "} %}"
BY_NUMBER = "{% set d = {" + ", ".join(f"{n}: 1" for n in range(2000)) + "} %}"
#: A loop that would go on for days; its body is the attack.
FOREVER = "{% for a in range(100000) %}{% for b in range(100000) %}BODY{% endfor %}{% endfor %}"


def forever(body: str, before: str = "") -> str:
    return before + FOREVER.replace("BODY", body)


def grown(step: str, start: str = "'x'", times: int = 100) -> str:
    """A value made larger and larger from itself."""
    return (
        f"{{% set ns = namespace(x={start}) %}}{{% for i in range({times}) %}}{{% set ns.x = {step} %}}{{% endfor %}}"
        "{{ ns.x|length }}"
    )


HUGE = 10**9

#: They must end in time; what they write is nobody's business.
EXHAUSTING: dict[str, str] = {
    # Operators
    "repeated text": "{{ 'x' * 10**10 }}",
    "repeated text, left": "{{ 10**10 * 'x' }}",
    "repeated list": "{{ [1] * 10**10 }}",
    "repeated tuple": "{{ (1,) * 10**10 }}",
    "repeated safe text": "{{ ('x'|safe) * 10**10 }}",
    "power": "{{ 10**10**10 }}",
    "power of a power": "{{ ((2**1000)**1000)**1000 }}",
    "negative power": "{{ 10 ** -10**9 }}",
    "power in a loop": grown("ns.x * ns.x", "3"),
    "product in a loop": grown("ns.x * 1000003", "3", 100000),
    "text added to itself": grown("ns.x + ns.x"),
    "text joined to itself": grown("ns.x ~ ns.x"),
    "text formatted into itself": grown("'%s%s' % (ns.x, ns.x)"),
    "text formatted into itself by name": grown("'%(a)s%(a)s' % {'a': ns.x}"),
    "text formatted into itself with braces": grown("'{0}{0}'.format(ns.x)"),
    "list added to itself": grown("ns.x + ns.x", "[1]"),
    "tuple added to itself": grown("ns.x + ns.x", "(1,)"),
    "escaped again and again": grown("ns.x|forceescape", "'&'"),
    "escaped again and again in a text": grown("(ns.x|string)|e|string ~ ''", "'&'"),
    "repr of repr": grown("[ns.x] ~ ''", "'\\\\'"),
    "concatenation": grown("ns.x ~ ns.x ~ ns.x ~ ns.x"),
    "width of %": "{{ '%1000000000d' % 1 }}",
    "precision of %": "{{ '%.1000000000f' % 1 }}",
    "width of % from the values": "{{ '%*d' % (1000000000, 1) }}",
    "width of % by filter": "{{ '%1000000000d'|format(1) }}",
    "many widths of %": LONG + "{{ (('%999d' * 30000) % ((1,) * 30000))|length }}",
    "many signs of %": "{{ (('%%' * 400000) % ())|length }}",
    "width of format": "{{ '{:>1000000000}'.format(1) }}",
    "nested width of format": "{{ '{:>{w}}'.format(1, w=1000000000) }}",
    "precision of format": "{{ '{:.1000000000f}'.format(1.0) }}",
    "many fields of format": "{{ ('{0}' * 100000).format('x' * 1000) }}",
    "format of a list": DOUBLED + "{{ '{}'.format(x) }}",
    "slices kept": grown("[ns.x, t[1:]]", "[]", 100000).replace("{% set ns", LONGEST + "{% set ns", 1),
    "literals kept": grown("[ns.x" + ", 0" * 2000 + "]", "[]", 100000),
    "tuples kept": grown("(ns.x, i" + ", 0" * 2000 + ")", "[]", 100000),
    "mappings kept": grown("{0: ns.x, " + ", ".join(f"{n}: i" for n in range(1, 1000)) + "}", "[]", 100000),
    "numbers kept": grown("[ns.x, 7 ** 600 + i]", "[]", 100000),
    "what is missing kept": grown("[ns.x" + ", i.a" * 2000 + "]", "[]", 100000),
    "what is missing kept as values": grown(
        "{0: ns.x, " + ", ".join(f"{n}: i.a" for n in range(1, 800)) + "}", "[]", 100000
    ),
    "characters kept": grown("[ns.x" + ", '€'[0]" * 1500 + "]", "[]", 100000),
    "fractions kept": grown("[ns.x" + ", i / 7" * 1500 + "]", "[]", 100000),
    "arguments that are missing kept": "{% set ns = namespace(x=[]) %}"
    "{% macro m() %}{% set ns.x = [ns.x, varargs] %}{% endmacro %}" + forever("{{ m(" + "a.b, " * 2000 + "1) }}"),
    "texts kept": grown("[ns.x, 'x' * 100000 ~ i]", "[]", 100000),
    "macros kept": "{% set ns = namespace(x=[]) %}"
    + forever("{% macro m() %}{% endmacro %}{% set ns.x = [ns.x, m] %}"),
    "arguments kept": "{% set ns = namespace(x=[]) %}{% macro m() %}{% set ns.x = [ns.x, varargs] %}{% endmacro %}"
    + forever("{{ m(" + "1, " * 2000 + "1) }}"),
    "parts kept": grown("[ns.x, t.split('y')]", "[]", 100000).replace("{% set ns", LONGEST + "{% set ns", 1),
    "partitions kept": grown("[ns.x, t.partition('y')]", "[]", 100000).replace("{% set ns", LONGEST + "{% set ns", 1),
    "reversed kept": grown("[ns.x, t|reverse]", "[]", 100000).replace("{% set ns", LONGEST + "{% set ns", 1),
    "copies kept": grown("[ns.x, n[:]]", "[]", 100000).replace("{% set ns", NUMBERS + "{% set ns", 1),
    "sliced copies kept": grown("[ns.x, n[::2]]", "[]", 100000).replace("{% set ns", NUMBERS + "{% set ns", 1),
    "lists kept": grown("[ns.x, n|list]", "[]", 100000).replace("{% set ns", NUMBERS + "{% set ns", 1),
    "dicts kept": grown("[ns.x, dict(d, k=i)]", "[]", 100000).replace(
        "{% set ns", "{% set d = {" + ", ".join(f"{n}: 1" for n in range(1000)) + "} %}{% set ns", 1
    ),
    "namespaces kept": grown("[ns.x, namespace(a=i)]", "[]", 100000),
    "cyclers kept": grown("[ns.x, cycler(" + "1, " * 1000 + "1)]", "[]", 100000),
    # Loops
    "nested loops without output": forever(""),
    "nested loops with output": forever("x"),
    "nested loops, nothing chosen": "{% for a in range(100000) if a < 0 %}{% endfor %}" * 500,
    "nested loops, all chosen from": "{% for a in range(100000) %}{% for b in range(100000) if b < 0 %}"
    "{% endfor %}{% endfor %}",
    "loop in a macro": "{% macro m() %}" + forever("x") + "{% endmacro %}{{ m() }}",
    "loop in a set": "{% set s %}" + forever("x") + "{% endset %}",
    "loop of empty texts in a set": "{% set s %}" + forever("{{ '' }}" * 500) + "{% endset %}",
    "loop of empty texts": forever("{{ '' }}" * 500),
    "loop of references in a set": LONG + "{% set s %}" + forever("{{ t }}") + "{% endset %}",
    "loop in a filter": "{% filter upper %}" + forever("x") + "{% endfilter %}",
    "loop over a text": LONGEST + "{% for c in t %}{% for d in t %}{% endfor %}{% endfor %}",
    "loop over a huge range": "{% for i in range(10**12) %}{% endfor %}",
    "range of huge numbers": "{% for i in range(10**600, 10**600 + 5) %}{{ i }}{% endfor %}",
    "loop that looks back": forever("{{ loop.changed(x) }}{{ loop.nextitem }}", DOUBLED),
    "loop that compares": forever("{{ loop.changed([x]) }}", DOUBLED),
    # Calls
    "endless macro": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "exponential macros": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
    "exponential macros with output": "{% macro m(n) %}x{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}"
    "{% endmacro %}{{ m(40) }}",
    "mutual macros": "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
    "macros in a chain": "{% macro m0() %}" + "x" * 1000 + "{% endmacro %}"
    + "".join(f"{{% macro m{n}() %}}{{{{ m{n - 1}() }}}}{{{{ m{n - 1}() }}}}{{% endmacro %}}" for n in range(1, 40))
    + "{{ m39() }}",
    "recursive loop": "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "exponential loop": "{% for x in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "recursive caller": "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}",
    "caller that calls": "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}"
    + "{% call m() %}" * 30 + "x" + "{% endcall %}" * 30,
    "macro as its own argument": "{% macro m(f) %}{{ f(f) }}{% endmacro %}{{ m(m) }}",
    # Lists within lists
    "doubled list written": DOUBLED + "{{ x }}",
    "doubled list joined": DOUBLED + "{{ x ~ '' }}",
    "doubled list as a text": DOUBLED + "{{ x|string|length }}",
    "doubled list in a filter": DOUBLED + "{{ x|join }}",
    "doubled list as JSON": DOUBLED + "{{ x|tojson }}",
    "doubled list compared": DOUBLED_TWICE + "{{ x == ns.x }}",
    "doubled list ordered": DOUBLED_TWICE + "{{ x < ns.x }}",
    "doubled list sought": DOUBLED_TWICE + "{{ x in [ns.x] }}",
    "doubled list sought by index": DOUBLED_TWICE + "{{ [ns.x].index(x) }}",
    "doubled list counted": DOUBLED_TWICE + "{{ [ns.x].count(x) }}",
    "doubled list selected": DOUBLED_TWICE + "{{ [x]|select('==', ns.x)|list }}",
    "doubled list as a key": DOUBLED.replace("[ns.x, ns.x]", "(ns.x, ns.x)") + "{{ {x: 1} }}",
    "doubled list looked up": DOUBLED.replace("[ns.x, ns.x]", "(ns.x, ns.x)") + "{{ {}[x] }}",
    "doubled list made unique": DOUBLED.replace("[ns.x, ns.x]", "(ns.x, ns.x)") + "{{ [x, x]|unique }}",
    "doubled list sorted": DOUBLED_TWICE + "{{ [x, ns.x]|sort }}",
    "doubled list grouped": DOUBLED_TWICE + "{{ [[x], [ns.x]]|groupby(0) }}",
    "doubled list formatted": DOUBLED + "{{ '%s'|format(x) }}{{ '%d'|format(x) }}",
    "deep list": grown("[ns.x]", "[]", 100000) + "{{ ns.x }}",
    "deep list compared": grown("[ns.x]", "[]", 15000)
    + "{% set y = ns.x %}"
    + grown("[ns.x]", "[]", 15000)
    + "{{ y == ns.x }}",
    "doubled mapping": DOUBLED.replace("[ns.x, ns.x]", "{1: ns.x, 2: ns.x}") + "{{ x }}",
    # Methods
    "ljust": f"{{{{ 'x'.ljust({HUGE}) }}}}",
    "rjust": f"{{{{ 'x'.rjust({HUGE}) }}}}",
    "zfill": f"{{{{ 'x'.zfill({HUGE}) }}}}",
    "center": f"{{{{ 'x'.center({HUGE}) }}}}",
    "replace": LONG + "{{ t.replace('x', t) }}",
    "replace of nothing": LONG + "{{ t.replace('', t) }}",
    "replace in a safe text": LONG + "{{ (t|safe).replace('x', '&' * 100) }}",
    "join": LONG + "{{ t.join(t) }}",
    "join of a list": LONG + NUMBERS + "{{ t.join(n) }}",
    "expandtabs": f"{{{{ ('\t' * 100000).expandtabs({HUGE}) }}}}",
    "split": LONGEST + forever("{{ t.split('x')|length }}"),
    "split by spaces": forever("{{ t.split()|length }}", "{% set t = 'x ' * 400000 %}"),
    "lines": forever("{{ t.splitlines()|length }}", "{% set t = '\n' * 1000000 %}"),
    "rfind": "{{ ('a' * 1000000).rfind('b' ~ 'a' * 500000) }}",
    "rindex": "{{ ('a' * 1000000).rindex('b' ~ 'a' * 500000) }}",
    "rsplit": "{{ ('a' * 1000000).rsplit('b' ~ 'a' * 500000) }}",
    "rpartition": "{{ ('a' * 1000000).rpartition('b' ~ 'a' * 500000) }}",
    "find": forever("{{ t.find('a' * 7000 ~ 'b' ~ 'a' * 7000) }}", "{% set t = 'a' * 29000 %}"),
    "count": forever("{{ t.count('a' * 500 ~ 'b') }}", "{% set t = 'a' * 100000 %}"),
    "strip": "{{ ('a' * 1000000).strip('b' * 900000 ~ 'a') }}",
    "upper of what grows": grown("ns.x.upper().casefold() ~ ns.x", "'ß'"),
    "title": LONGEST + forever("{{ t.title()|length }}"),
    "startswith": forever("{{ t.startswith((" + "t, " * 900 + ")) }}", LONGEST + "{% set u = t ~ 'y' %}"),
    # Filters
    "center filter": f"{{{{ 'x'|center({HUGE}) }}}}",
    "indent by number": f"{{{{ 'x'|indent({HUGE}, true) }}}}",
    "indent by text": LONG + "{{ ('x\n' * 10000)|indent(t) }}",
    "indent of many lines": "{{ ('\n' * 500000)|indent(1000, blank=true) }}",
    "wordwrap": LONG + "{{ t|wordwrap(1) }}",
    "wordwrap of lines": forever("{{ t|wordwrap(1)|length }}", "{% set t = ('x' * 9999 ~ '\n') * 9 %}"),
    "wordwrap with a long end": LONG + "{{ ('x ' * 10000)|wordwrap(1, wrapstring=t) }}",
    "wordwrap of hyphens": forever("{{ t|wordwrap(5)|length }}", "{% set t = 'a-' * 4999 %}"),
    "batch": f"{{{{ [1]|batch({HUGE}, 0) }}}}",
    "slice": f"{{{{ [1]|slice({HUGE}) }}}}",
    "slice filled": f"{{{{ [1]|slice({HUGE}, 0) }}}}",
    "replace filter": LONG + "{{ t|replace('x', t) }}",
    "tojson indent": NUMBERS + f"{{{{ n|tojson(indent={HUGE}) }}}}",
    "tojson": NUMBERS + forever("{{ n|tojson|length }}"),
    "tojson of what is escaped": "{% set t = '<' * 1000000 %}" + forever("{{ t|tojson|length }}"),
    "round": "{{ 5|round(-10**9) }}{{ 5.5|round(10**9) }}",
    "round up": "{{ 5.5|round(10**9, 'ceil') }}",
    "truncate": f"{{{{ 'x'|truncate({HUGE}, end='y' * 100000) }}}}",
    "format filter": f"{{{{ '%{HUGE}s'|format('x') }}}}",
    "xmlattr": TEXTS_BY_NAME + "{{ d|xmlattr }}",
    "xmlattr of long texts": LONG + TEXTS_BY_NAME + "{{ d|xmlattr }}",
    "urlize of brackets": forever("{{ t|urlize|length }}", "{% set t = 'www.' ~ ')' * 49000 ~ 'a' ~ ')' * 49000 %}"),
    "urlize of opening brackets": forever("{{ t|urlize|length }}", "{% set t = 'www.' ~ '(' * 49000 ~ ')' * 49000 %}"),
    "urlize of short brackets": forever("{{ t|urlize|length }}", "{% set t = ('.' ~ ')' * 990 ~ 'a) ') * 100 %}"),
    "urlize of dots": forever("{{ t|urlize|length }}", "{% set t = ('http://' ~ 'a.' * 490 ~ ' ') * 100 %}"),
    "urlize of addresses": forever("{{ t|urlize|length }}", "{% set t = ('a@' ~ 'a.' * 490 ~ '! ') * 100 %}"),
    "urlize of many words": forever("{{ t|urlize|length }}", "{% set t = 'a.b ' * 25000 %}"),
    "striptags": forever("{{ t|striptags|length }}", "{% set t = '<!-- -->' * 12000 %}"),
    "striptags of tags": forever("{{ t|striptags|length }}", "{% set t = '<a>' * 33000 %}"),
    "striptags of openings": forever("{{ t|striptags|length }}", "{% set t = '<' * 99000 %}"),
    "striptags of entities": forever("{{ t|striptags|length }}", "{% set t = '&amp' * 24000 %}"),
    "title filter": forever("{{ t|title|length }}", "{% set t = 'x ' * 49000 %}"),
    "wordcount": forever("{{ t|wordcount }}", "{% set t = 'x ' * 49000 %}"),
    "urlencode": forever("{{ t|urlencode|length }}", "{% set t = 'ä' * 99000 %}"),
    "upper": LONGEST + forever("{{ t|upper|length }}"),
    "escape": "{% set t = '\"' * 1000000 %}" + forever("{{ t|e|length }}"),
    "sort": NUMBERS + forever("{{ n|sort(reverse=true)|first }}"),
    "sort of long texts": "{% set t = 'x' * 500000 %}{% set u = t ~ 'a' %}{% set v = t ~ 'b' %}"
    + "{{ ([u, v] * 40000)|sort|length }}",
    "sort by many attributes": NUMBERS + "{{ n|sort(attribute='" + "a," * 5000 + "a')|length }}",
    "sort by a deep attribute": NUMBERS + "{{ n|sort(attribute='" + "a." * 5000 + "a')|length }}",
    "unique of colliding numbers": "{{ range(0, 100000 * (2**61 - 1), 2**61 - 1)|unique|length }}",
    "unique of texts": LONG + forever("{{ (t ~ a)|unique|length }}"),
    "groupby": NUMBERS + forever("{{ n|groupby('x')|length }}"),
    "map": NUMBERS + forever("{{ n|map('string')|list|length }}"),
    "map of map": "{% set n = range(1000)|list %}" + forever("{{ [n, n, n]|map('map', 'string')|map('list')|list }}"),
    "map of growth": LONG + NUMBERS + "{{ n|map('string')|map('center', 100000)|list|length }}",
    "map of replace": LONG + "{{ ([t] * 1000)|map('replace', 'x', 'yyyyyyyyy')|list|length }}",
    "select in": NUMBERS + "{{ n|select('in', n)|list|length }}",
    "select in a text": "{% set t = 'a' * 1000000 %}" + forever("{{ ['b' ~ 'a' * 40]|select('in', t)|list }}"),
    "select compared": "{% set l = ['x' * 1000000] * 9000 %}{% set m = ['x' * 1000000] * 9000 %}{{ l == m }}",
    "sought in long texts": "{% set l = ['x' * 1000000 ~ 'a'] * 90000 %}{{ 'x' * 1000000 ~ 'b' in l }}",
    "sum": NUMBERS + forever("{{ n|sum }}"),
    "sum of texts": LONG + "{{ ([t] * 1000)|sum(start='') }}",
    "sum of lists": "{{ ([[1, 2, 3]] * 90000)|sum(start=[])|length }}",
    "join filter": LONG + "{{ ([t] * 90000)|join(t) }}",
    "list of a text": LONGEST + "{{ t|list|length }}",
    "list of a text in a loop": LONG + forever("{{ t|list|length }}"),
    "lists in a loop": NUMBERS + forever("{{ n|list|length }}"),
    "max": NUMBERS + forever("{{ n|max }}{{ n|min }}"),
    "dictsort": BY_NUMBER + forever("{{ d|dictsort|length }}"),
    "items": BY_NUMBER + forever("{{ d|items|length }}"),
    "reverse": LONGEST + forever("{{ t|reverse|length }}"),
    "int of a long text": "{{ ('9' * 1000000)|int }}{{ ('f' * 1000000)|int(0, 36) }}",
    "int of many digits": forever("{{ ('9' * 4000)|int }}"),
    "float of a long text": "{{ ('9' * 1000000)|float }}",
    "filesizeformat": "{{ ('9' * 300)|filesizeformat }}{{ (10**300)|filesizeformat }}",
    "lipsum": "{{ lipsum(n=10000) }}",
    # Long outputs
    "long text written": LONGEST + "{{ t }}" * 3,
    "long text escaped": "{% set t = '\"' * 1000000 %}{{ t }}",
    "straight on": LONGEST + "{{ t|upper|length }}" * 1500,
    "straight on, compared": "{% set t = 'x' * 1000000 %}{% set u = 'x' * 1000000 %}" + "{{ t == u }}" * 1500,
    "straight on, escaped": "{% set t = '\"' * 1000000 %}" + "{{ (t|e)|length }}" * 1000,
}  # fmt: skip

#: They would take long to compile, or more of the stack than there is.
HARD_TO_COMPILE: dict[str, str] = {
    "long expression": "{{ 1" + " + 1" * 50_000 + " }}",
    "parentheses": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "brackets": "{{ " + "[" * 5000 + "]" * 5000 + " }}",
    "unclosed brackets": "{{ " + "[" * 100_000,
    "mappings": "{{ " + "{1: " * 3000 + "1" + "}" * 3000 + " }}",
    "filters": "{{ x" + "|upper" * 30_000 + " }}",
    "attributes": "{{ x" + ".a" * 30_000 + " }}",
    "subscripts": "{{ x" + "[0]" * 30_000 + " }}",
    "calls": "{{ x" + "()" * 30_000 + " }}",
    "signs": "{{ " + "-" * 50_000 + "1 }}",
    "nots": "{{ " + "not " * 50_000 + "1 }}",
    "inline ifs": "{{ " + "1 if 1 else " * 20_000 + "1 }}",
    "comparisons": "{{ 1" + " < 1" * 50_000 + " }}",
    "ands": "{{ 1" + " and 1" * 50_000 + " }}",
    "concatenations": "{{ 1" + " ~ 1" * 50_000 + " }}",
    "texts side by side": "{{ " + "'x' " * 50_000 + "}}",
    "ifs": "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
    "unclosed ifs": "{% if 1 %}" * 20_000,
    "elifs": "{% if a %}" + "{% elif a %}" * 20_000 + "{% endif %}",
    "fors": "{% for a in b %}" * 1000 + "{% endfor %}" * 1000,
    "twenty-five fors": "{% for a in b %}" * 25 + "{% endfor %}" * 25,
    "withs": "{% with a = 1 %}" * 1000 + "{% endwith %}" * 1000,
    "macros": "{% macro a() %}" * 1000 + "{% endmacro %}" * 1000,
    "filter blocks": "{% filter upper %}" * 1000 + "{% endfilter %}" * 1000,
    "sets": "{% set a %}" * 1000 + "{% endset %}" * 1000,
    "many arguments": "{{ f(" + "1," * 50_000 + ") }}",
    "many parameters": "{% macro f(" + ", ".join(f"a{n}" for n in range(20_000)) + ") %}{% endmacro %}",
    "many names": "".join(f"{{{{ a{n} }}}}" for n in range(50_000)),
    "many ifs": "".join(f"{{% if a{n} %}}{{% endif %}}" for n in range(20_000)),
    "many outputs": "{{ 1 }}" * 100_000,
    "many comments": "{##}" * 250_000,
    "many raws": "{% raw %}{% endraw %}" * 40_000,
    "unclosed comment": "{#" + "x-" * 400_000,
    "unclosed raw": "{% raw %}" + "{% " * 300_000,
    "openings": "{% " * 300_000,
    "spaces": "{%" + " " * 900_000,
    "unclosed text": "{{ '" + "\\x" * 400_000,
    "long number": "{{ " + "9" * 900_000 + " }}",
    "long number with underscores": "{{ " + "9_" * 400_000 + "9 }}",
    "long hexadecimal number": "{{ 0x" + "f" * 900_000 + " }}",
    "large number": "{{ 0x" + "f" * 900 + " }}",
    "number beyond all": "{{ 1e999 }}",
    "long name": "{{ " + "a" * 900_000 + " }}",
    "long text": "x" * 5_000_000,
    "constant to be folded": "{{ 'x' * 10**10 if 10**10**10 else [1] * 10**10 }}{{ ('x' * 10**10)|upper }}",
    "constant in autoescape": "{% autoescape 'x' * 10**10 %}{% endautoescape %}",
    "star": "{{ dict(*('x' * 100000)) }}",
    "stars": "{{ dict(**x) }}",
    "name twice": "{{ dict(a=1, a=2) }}",
    "null and surrogates": "\x00\ud800{{ '\x00\ud800' }}",
}

#: They would reach what is not theirs; they are refused or write nothing of it.
REACHING: dict[str, str] = {
    "class": "{{ ''.__class__ }}",
    "class by subscript": "{{ ''['__class__'] }}",
    "class of a number": "{{ 1.__class__ }}{{ (1).__class__ }}",
    "class of a list": "{{ [].__class__ }}",
    "class of a mapping": "{{ {}.__class__.__mro__ }}",
    "class of a tuple": "{{ ().__class__.__bases__[0].__subclasses__() }}",
    "class of none": "{{ none.__class__ }}",
    "class by attr": "{{ ''|attr('__class__') }}",
    "class by map": "{{ ['']|map(attribute='__class__')|list }}",
    "class by a dotted attribute": "{{ ['']|map(attribute='__class__.__mro__')|list }}",
    "class by sort": "{{ ['', 'a']|sort(attribute='__class__') }}",
    "class by groupby": "{{ ['']|groupby('__class__') }}",
    "class by sum": "{{ ['']|sum(attribute='__class__') }}",
    "class by join": "{{ ['']|join(attribute='__class__') }}",
    "class by selectattr": "{{ ['']|selectattr('__class__')|list }}",
    "class by format": "{{ '{0.__class__}'.format('') }}",
    "class by an index in format": "{{ '{0[__class__]}'.format('') }}",
    "class by format of a safe text": "{{ ('{0.__class__}'|safe).format('') }}",
    "class by format_map": "{{ '{a.__class__}'.format_map({'a': ''}) }}",
    "class by a format kept": "{% set f = '{0.__class__}'.format %}{{ f('') }}",
    "class by a mapped format": "{{ ['{0.__class__}']|map('format', '')|list }}",
    "globals of a function": "{{ range.__globals__ }}{{ cycler.__init__.__globals__ }}",
    "globals of joiner": "{{ joiner.__init__.__globals__ }}",
    "globals of namespace": "{{ namespace.__init__.__globals__ }}",
    "function of a function": "{{ range.function }}{{ dict.function.__globals__ }}",
    "globals of lipsum": "{{ lipsum.__globals__ }}",
    "code of a macro": "{% macro m() %}{% endmacro %}{{ m._func.__code__ }}{{ m._environment }}",
    "environment of a macro": "{% macro m() %}{% endmacro %}{{ m._environment.filters }}",
    "environment of caller": "{% macro m() %}{{ caller._environment }}{% endmacro %}{% call m() %}{% endcall %}",
    "self": "{{ self.__init__ }}{{ self._TemplateReference__context }}{{ self.context }}",
    "loop": "{% for a in [1] %}{{ loop._iterable }}{{ loop._undefined }}{% endfor %}",
    "loop's methods": "{% for a in [1] %}{{ loop.__init__.__globals__ }}{{ loop.recurse }}{% endfor %}",
    "loop's function": "{% for a in [1] recursive %}{{ loop._recurse.__globals__ }}{% endfor %}",
    "environment": "{{ environment }}{{ context }}{{ run }}{{ call }}{{ Markup }}{{ __builtins__ }}",
    "undefined": "{{ nothing.__class__ }}{{ nothing._noted }}{{ nothing.note() }}",
    "undefined's name": "{{ nothing._undefined_exception }}",
    "method of a text": "{{ ''.join.__self__ }}{{ ''.format.function }}",
    "encode": "{{ 'x'.encode('utf-8') }}",
    "translate": "{{ 'x'.translate({120: 'y'}) }}",
    "change of a list": "{{ items.append(1) }}",
    "change of a mapping": "{{ order.update({'a': 1}) }}{{ order.pop('a') }}{{ order.clear() }}",
    "change by namespace": "{% set order.a = 1 %}",
    "include": "{% include '/etc/passwd' %}",
    "import": "{% import 'os' as os %}",
    "from": "{% from 'os' import system %}",
    "extends": "{% extends 'base' %}",
    "block": "{% block a %}{{ self.a() }}{% endblock %}",
    "names of arguments": "{{ dict(_loop_vars=1, _block_vars=2, self=3, run=4) }}",
    "operator of a name": "{% set environment = 1 %}{% set run = 2 %}{% set attr = 3 %}{{ run }}{{ 'a'.upper() }}",
}


def variables() -> dict[str, Any]:
    """What a shop might hand in."""
    return {"order": {"number": 5}, "items": [1, 2], "name": "Ada", "secret": "s3cr3t-value"}
