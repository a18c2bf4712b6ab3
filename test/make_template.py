# SPDX-License-Identifier: Apache-2.0
"""make_template.py - writes test/template/golden.json: what jinja2, set up as transformers does,
makes of templates.

    python test/make_template.py              # needs jinja2
    python test/make_template.py --more DIR   # prints as JSON what it makes of all templates in DIR

Each case has its template, its variables and the text, or an empty `text` and `fails`. golden.json
lists equal templates and variables once, and its cases have their places in the lists."""
import datetime
import glob
import json
import os
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "template")
NOW = 1700000000  # 14 November 2023, 22:13:20 UTC

CHAT = {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True}
USER = {"role": "user", "content": " What is 2 + 2? \u00fc\u4f60 "}
SYSTEM = {"role": "system", "content": "Be brief.\n"}
ANSWER = {"role": "assistant", "content": "<think>\nEasy.\n</think>\n\nFour."}
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "a1b2c3d4e", "type": "function", "function": {"name": "add", "arguments": {"x": 2, "y": [1.5, None, True, "\u00e9\"\n"]}}}]}
RESULT = {"role": "tool", "content": "4", "tool_call_id": "a1b2c3d4e"}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
PARTS = {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "image"}]}
CHATS = [
    [USER],
    [SYSTEM, USER],
    [SYSTEM, USER, ANSWER, USER],
    [USER, CALL, RESULT, RESULT, ANSWER, USER],
    [USER, USER],
    [USER, ANSWER, {"role": "end", "content": "x"}, USER],
    [{"role": "skip", "content": "x"}, USER, {"role": "assistant", "content": ""}],
    [PARTS],
]
FILES = ("header_ids", "thinking", "brackets", "macros")
SMALL = r"""
{{ 1 + 2 * 3 - 4 // 3 }} {{ 7 / 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2.0 * 3 }} {{ 1e0 if false else 0.1 + 0.2 }}
{{ 'a' ~ 1 ~ none ~ true }} {{ 'ab' * 3 }} {{ [1, 2] + [3] }} {{ (1, 2)[1] }} {{ {'a': 1}['a'] }} {{ {'a': 1}.a }}
{{ 'a' 'b' }} {{ "it's" }} {{ 'say "x"' }} {{ 'tab\there\\ \x41 \u00e9' }}
{{ ["it's", 'a\n', {'k': none}] }} {{ 1.0 }} {{ 100000000000000000000.0 }} {{ 0.00001 }} {{ 1e0 if 0 }}
{{ 'h\u00e9llo'[1] }} {{ 'h\u00e9llo'[-1] }} {{ 'h\u00e9llo'[1:3] }} {{ 'h\u00e9llo'[::-1] }} {{ 'h\u00e9llo'|length }} {{ 'abc'[5] }}|
{{ [1,2,3,4][1:-1] }} {{ [1,2,3,4][::2] }} {{ [1,2,3,4][::-1] }} {{ [1,2,3,4][-2:] }} {{ [1,2,3,4][3:1:-1] }} {{ []|first }}|
{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }} {{ not 1 == 2 }} {{ 'b' > 'a' }}
{{ 'a' in 'cab' }} {{ 3 in [1, 2] }} {{ 'k' in {'k': 1} }} {{ 'x' not in 'abc' }} {{ nothing in [1] }} {{ 1 in nothing }}
{{ 1 and 2 }} {{ 0 or 'x' }} {{ '' and 2 }}| {{ none or [] }} {{ not '' }} {{ 1 if 0 else 2 if 0 else 3 }}
{{ nothing }}|{{ nothing is defined }} {{ nothing is undefined }} {{ messages is defined }} {{ not nothing is defined }} {{ nothing is not none }}
{{ none is none }} {{ 'a' is string }} {{ {} is mapping }} {{ [] is iterable }} {{ 'a' is iterable }} {{ 1 is iterable }} {{ 1 is number }} {{ true is boolean }} {{ 1 is integer }} {{ 1.5 is float }}
{{ true is true }} {{ 1 is true }} {{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 1 is in [1, 2] }} {{ 'a' is equalto 'a' }} {{ 1 is ne 2 }} {{ [] is sequence }}
{{ '  x y '|trim }}|{{ 'xyx'|trim('x') }}|{{ ' a '.strip() }}|{{ '\n\na\n'.lstrip('\n') }}|{{ 'a..'.rstrip('.') }}|
{{ 'A b C'|lower }} {{ 'A b c'|upper }} {{ 'hello wORLD'|capitalize }} {{ 'hello wORLD x1y'|title }} {{ 'aBc'.upper() }} {{ 'aBc'.lower() }} {{ 'ab cd'.title() }} {{ 'aB'.capitalize() }}
{{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ')[-1] }} {{ ' a b c '.split(none, 1) }} {{ ''.split(',') }}
{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'bc')) }} {{ 'aXbX'.replace('X', '-') }} {{ 'aXbX'|replace('X', '-', 1) }} {{ ', '.join(['a', 'b']) }} {{ 'h\u00e9y'.find('y') }}
{{ [1, 2, 'x']|join(', ') }} {{ [{'n': 1}, {'n': 2}]|join('-', attribute='n') }} {{ [3, 1]|length }} {{ {'a': 1}|length }} {{ [1, 2]|last }} {{ 'abc'|first }} {{ [1, 2, 3]|reverse|list }} {{ 'abc'|list }}
{{ nothing|default('d') }} {{ ''|default('d') }}| {{ ''|default('d', true) }} {{ none|default('d') }} {{ nothing|d(3) + 1 }} {{ nothing|default }}|
{{ {'b': 1, 'a': [true, none, 1.5, '<\u00e9"\n>']}|tojson }} {{ 'x'|tojson }} {{ []|tojson }} {{ {}|tojson(indent=2) }} {{ none|tojson }}
{{ {'b': 1, 'a': [1, {'c': 2}]}|tojson(indent=2) }}
{% for k, v in {'b': 1, 'a': 2}.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in {'b': 1, 'a': 2}|items %}{{ k }}{% endfor %}{% for k, v in {'b': 1, 'a': 2}|dictsort %}{{ k }}{{ v }}{% endfor %}
{% for k in {'b': 1, 'a': 2} %}{{ k }}{% endfor %} {{ {'b': 1}.keys()|list }} {{ {'b': 1}.values()|list }} {{ {'b': 1}.get('b') }} {{ {'b': 1}.get('x') }} {{ {'b': 1}.get('x', 'y') }}
{{ '3'|int + 1 }} {{ 'x'|int }} {{ 3.9|int }} {{ '2.5'|float }} {{ 5|string + '!' }} {{ -3|abs }} {{ 'a<b'|safe }}
{{ [{'t': 'a', 'v': 1}, {'t': 'b', 'v': 2}]|selectattr('t', 'equalto', 'b')|map(attribute='v')|list }} {{ [{'t': 1}, {'u': 1}]|selectattr('t', 'defined')|list|length }} {{ [{'t': 0}, {'t': 1}]|rejectattr('t')|list }} {{ [1, 2, 3]|select('odd')|list }} {{ [1, 2, 3]|reject('odd')|list }} {{ [' a ', 'b']|map('trim')|list }}
{% for x in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}
{% for x in [1, 2, 3, 4] if x is even %}{{ loop.index }}:{{ x }}{% if not loop.last %}, {% endif %}{% else %}none{% endfor %}{% for x in [] %}x{% else %}none{% endfor %}{% for x in nothing %}x{% endfor %}
{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{% endfor %}{% for i in range(3) %}{{ i }}{% endfor %}{% for i in range(1, 9, 3) %}{{ i }}{% endfor %}{% for c in 'h\u00e9' %}{{ c }}.{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}
{% set ns = namespace(n=0, s='') %}{% for i in [1, 2, 3] %}{% set ns.n = ns.n + i %}{% set ns.s = ns.s ~ i %}{% endfor %}{{ ns.n }}{{ ns.s }}
{% set a, b = 1, 'two' %}{{ a }}{{ b }}{% set c = (1, 2) %}{{ c|length }}{% set t %}in {{ a }}{% endset %}[{{ t }}]
{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}{% for i in [1, 2] %}{% for j in [1, 2] %}{% if j == 2 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}
{% macro f(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, c=3) }} {{ f(b=5, a=4) }} {{ f('q')|upper }}
{% if 0 %}a{% elif none %}b{% elif [0] %}c{% else %}d{% endif %}{% if nothing %}x{% endif %}{% if not nothing %}y{% endif %}
{{ [2, 1, 2]|unique|list }} {{ none|map('trim')|list }} {{ none|selectattr('x')|list }}
{{ strftime_now('%Y-%m-%d') }} {{ strftime_now("%d %B %Y") }}
{{ messages[0].content }}{{ messages[-1]['role'] }}{{ messages[0]['nothing'] }}{{ messages[0].nothing is defined }}{{ messages|map(attribute='role')|join('+') }}
{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ dict(a=1, b='x')|tojson }}|{{ '%}' }}|{{ "}}" }}|{{ '{{' }}{# a {{ comment }} #}|
{%- raw %} {{ x }} {% if %} {% endraw -%} |{{- ' a ' -}}| {%- if true -%} b {%- endif -%} |
{{ nothing.x }}
{{ 'a' + 1 }}
{{ 1 + none }}
{{ raise_exception('no') }}
{{ 1 < 'a' }}
{{ 1 // 0 }}
{{ nothing[0] }}
{{ 5|length }}
{{ [1][0]() }}
{{ 'a'.nosuch() }}
{{ 'a'|nosuch }}
{{ 'a' is nosuch }}
{% nosuch %}
{% if 1 %}
{{ 'a }}
{{ 1 + }}
{% for %}{% endfor %}
{% set x.y = 1 %}
{{ nosuch(1) }}
""".strip("\n").split("\n")
SPACE = [
    "a\n  {% if true %}\n  b\n  {% endif %}\nc\n",
    "a\n  {%- if true -%}\n  b\n  {%- endif -%}\nc\n",
    "a {% if true %} b {% endif %} c\n\n",
    "  {# x #}\n  a\n{# y #} b\n",
    "a\n\t{{ 1 }}\n\t{% set x = 1 %}\t\nb",
    "{% if true %}\n\n\nx{% endif %}\n",
    "a\n  {%+ if true +%}\n b{% endif %}",
    "{% for i in [1, 2] %}\n  - {{ i }}\n{% endfor %}\nend",
    "{% for i in [1, 2] -%}\n  - {{ i }}\n{%- endfor %}\nend",
    "a\r\n{% if true %}\r\nb{% endif %}\r\n",
    "x {{- 1 }} {{ 2 -}} y {{ 3 }}\n z",
    "",
    "\n",
    "{",
    "a { b } {c} % # {",
]


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            next(parser.stream)
            return parser.parse_statements(["name:endgeneration"], drop_needle=True)

    e = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])
    e.filters["tojson"] = tojson
    e.globals["raise_exception"] = raise_exception
    e.globals["strftime_now"] = lambda f: datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(f)
    return e


def case(e, template, variables):
    try:
        return {"template": template, "variables": variables, "text": e.from_string(template).render(**variables)}
    except Exception as why:  # whatever jinja2 or Python says
        return {"template": template, "variables": variables, "text": "", "fails": str(why)}


def chats(template):
    e = environment()
    for messages in CHATS:
        for more in ({}, {"tools": [TOOL]}, {"add_generation_prompt": False, "enable_thinking": False}):
            yield case(e, template, dict(CHAT, messages=messages, **more) if "add_generation_prompt" not in more else
                       dict(dict(CHAT, messages=messages), **more))


def rows(f, key, values):
    f.write(',\n"%s": [\n%s]' % (key, ",\n".join(json.dumps(v) for v in values)))


def main():
    if len(sys.argv) > 1:
        paths = sorted(glob.glob(sys.argv[2] + "/*.jinja"))
        cases = [dict(c, name=os.path.basename(p)) for p in paths for c in chats(open(p, newline="").read())]
        # A filter that jinja2 leaves as a generator is a list here.
        cases = [c for c in cases if "generator" not in c.get("fails", "")]
        json.dump({"now": NOW, "cases": cases}, sys.stdout)
        return
    e = environment()
    cases = [c for name in FILES for c in chats(open(os.path.join(HERE, name + ".jinja")).read())]
    cases += [case(e, text, {"messages": [SYSTEM, USER]}) for text in SMALL + SPACE]
    with open(os.path.join(HERE, "golden.json"), "w") as f:
        f.write('{"made_by": "jinja2 %s", "now": %d' % (jinja2.__version__, NOW))
        for key in "template", "variables":  # each once; a case has its place in the list
            seen = []
            for c in cases:
                seen += [c[key]] * (c[key] not in seen)
                c[key] = seen.index(c[key])
            rows(f, key, seen)
        rows(f, "cases", cases)
        f.write("}\n")


main()
