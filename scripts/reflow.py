"""Comments of Rust and prose of Markdown, in lines of a width. Fences, tables, headings and drawings stay as they are."""
import re

WORD = re.compile(r"(?:<!-- figures:.*?<!-- /figures -->|!?\[[^\]]*\]\([^)]*\)|`[^`]*`|\S)+")
ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])(\s+)")
FENCE = ("```", "~~~")
MARKUP = re.compile(r"(?:[-*+]|\d+[.)])\s|#{1,6} |\||>|```")
REFERENCE = re.compile(r"^\[[^\]]+\]:")
COMMENT = re.compile(r"^(\s*//[/!]?)(?: (.*)|)$")


def paragraph(lines, prefix, width):
    """One paragraph or item of a list; `None` if a line of it would begin like something else."""
    if item := ITEM.match(lines[0]):
        first, body = prefix + item[0], [lines[0][item.end() :], *lines[1:]]
        rest = prefix + " " * len(item[0])
    else:
        first = rest = prefix + re.match(r"\s*", lines[0])[0]
        body = lines
    out, line, has_word = [], first, False
    for word in WORD.findall(" ".join(text.strip() for text in body)):
        if has_word and len(line) + 1 + len(word) > width:
            out.append(line)
            line, has_word = rest, False
        line += (" " if has_word else "") + word
        has_word = True
    out.append(line)
    return None if any(MARKUP.match(text[len(prefix) :].lstrip() + " ") for text in out[1:]) else out


def stands(text):
    """Lines that are no prose."""
    is_tag = text.startswith("<") and not text.startswith("<!-- figures")
    return not text or is_tag or text.startswith(("|", "#", ">")) or REFERENCE.match(text)


def is_block_of_figures(text):
    """Whether a block begins or ends that `pilotlight lab figures` writes."""
    begins = text.startswith("<!-- figures:") and "<!-- /figures" not in text
    return begins or text == "<!-- /figures -->"


def goes_on(line):
    """Whether the paragraph before this line goes on with it."""
    text = line.strip()
    begins = text.startswith((*FENCE, "Invariant:")) or is_block_of_figures(text) or ITEM.match(line)
    return not (stands(text) or begins)


def block(lines, prefix, width):
    """Lines of text, each behind `prefix`."""
    out, at, is_fenced = [], 0, False
    while at < len(lines):
        text = lines[at].strip()
        if text.startswith(FENCE) or is_block_of_figures(text):
            is_fenced = not is_fenced
        if is_fenced or text.startswith(FENCE) or is_block_of_figures(text) or stands(text):
            out.append(prefix + lines[at])
            at += 1
            continue
        end = at + 1
        while end < len(lines) and goes_on(lines[end]):
            end += 1
        whole = lines[at:end]
        is_wide = any(len(prefix) + len(line) > width for line in whole)
        better = paragraph(whole, prefix, width) if is_wide and not whole[0].startswith("    ") else None
        out += better or [prefix + line for line in whole]
        at = end
    return out


def comments(lines, width):
    """A file of Rust whose comments that are too wide are reflowed."""
    out, at = [], 0
    while at < len(lines):
        if not (begin := COMMENT.match(lines[at])):
            out.append(lines[at])
            at += 1
            continue
        texts = []
        while at < len(lines) and (found := COMMENT.match(lines[at])) and found[1] == begin[1]:
            texts.append(found[2] or "")
            at += 1
        prefix = begin[1] + " "
        is_wide = any(len(prefix) + len(text) > width for text in texts)
        new = block(texts, prefix, width) if is_wide else [prefix + text for text in texts]
        out += [line.rstrip() for line in new]
    return out


def markdown(lines, width):
    """A document whose prose that is too wide is reflowed."""
    return block(lines, "", width)
