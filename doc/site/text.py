# SPDX-License-Identifier: Apache-2.0
"""text.py - Markdown as a code host reads it: where its links are, and which anchors its headings make.

The link test (test/links.py) and the site (hook.py) both use it. Plain Python; no package is needed."""
import re

FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.M | re.S)
SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
COMMENT = re.compile(r"<!--.*?-->", re.S)
LINK = re.compile(r"\]\(\s*(<[^>\n]*>|[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]^\n]+\]:[ \t]*(\S+)", re.M)
TAG = re.compile(r"<[a-zA-Z][^<>]*>")
ATTRIBUTE = re.compile(r"\s(?:src|srcset|href)=[\"']([^\"']*)[\"']")
HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$", re.M)
ID = re.compile(r"<[a-zA-Z][^<>]*?\s(?:id|name)=[\"']([^\"']+)[\"']")


def blank(match):
    """The text of a match as spaces, so that positions stay."""
    return re.sub(r"[^\n]", " ", match.group())


def without_blocks(text):
    """The text with fenced code and comments blanked."""
    return COMMENT.sub(blank, FENCE.sub(blank, text))


def links(text):
    """(start, end, target) of every link, image, reference and HTML attribute outside code, in order."""
    plain = SPAN.sub(blank, without_blocks(text))
    found = []
    for pattern in (LINK, REFERENCE):
        found += [match.span(1) for match in pattern.finditer(plain)]
    for tag in TAG.finditer(plain):
        found += [match.span(1) for match in ATTRIBUTE.finditer(plain, *tag.span())]
    bare = [(start + 1, end - 1) if plain[start:start + 1] == "<" else (start, end) for start, end in found]
    return [(start, end, plain[start:end]) for start, end in sorted(bare)]


def slug(heading):
    """The anchor that GitHub gives a heading: lower case, punctuation dropped, spaces as hyphens."""
    heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    heading = re.sub(r"[`*]|<[^>]*>", "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def anchors(text):
    """Every anchor of a document; equal headings get -1, -2, ... as on GitHub."""
    plain, seen, found = without_blocks(text), {}, set()
    for match in HEADING.finditer(plain):
        name = slug(match.group(1))
        seen[name] = seen.get(name, -1) + 1
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
    return found | set(ID.findall(plain))
