# SPDX-License-Identifier: Apache-2.0
"""The part of Markdown that our documents use, as HTML.

Headings, paragraphs, lists, tables, fenced code, block quotes, HTML comments, and in a line: code, emphasis, links and
images. Everything else is text. Heading anchors follow GitHub's rule, so that links work there and on the site.
"""
import html
import re

FENCE = re.compile(r"^( *)(```+)\s*(.*?)\s*$")
HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
ITEM = re.compile(r"^( *)([-*]|\d+\.)\s+(.*)$")
RULE = re.compile(r"^\|?\s*:?-{3,}")
CODE = re.compile(r"(`+)(.+?)\1")
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
AUTOLINK = re.compile(r"&lt;(https?://[^\s&]+)&gt;")
STRONG = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")
EMPHASIS = re.compile(r"(?<![\w*])\*(?=[^\s*])(.+?)(?<=[^\s*])\*(?![\w*])")


def plain(text):
    """The text of a line without its marks: for titles and anchors."""
    text = LINK.sub(r"\1", text)
    return re.sub(r"[`*]", "", text).strip()


def slug(text):
    text = re.sub(r"[^\w\- ]", "", plain(text).lower())
    return text.replace(" ", "-")


class Document:
    """One page: .html, .title, .headings as (level, anchor, text), and its links as written."""

    def __init__(self, text, link=lambda target: target):
        self.link = link
        self.title = ""
        self.headings = []
        self.links = []
        self.anchors = set()
        text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.S)
        self.html = self.blocks(text.split("\n"))

    # Lines ------------------------------------------------------------------------------------

    def inline(self, text):
        kept = []

        def keep(markup):
            kept.append(markup)
            return f"\0{len(kept) - 1}\0"

        def code(match):
            body = match.group(2)
            if body.startswith(" ") and body.endswith(" ") and body.strip():
                body = body[1:-1]
            return keep(f"<code>{html.escape(body)}</code>")

        def target(url):
            self.links.append(url)
            return html.escape(self.link(url))

        text = CODE.sub(code, text)
        text = html.escape(text, quote=False)
        text = IMAGE.sub(lambda m: keep(f'<img src="{target(m.group(2))}" alt="{html.escape(m.group(1))}">'), text)
        text = LINK.sub(lambda m: keep(f'<a href="{target(m.group(2))}">') + m.group(1) + keep("</a>"), text)
        text = AUTOLINK.sub(lambda m: keep(f'<a href="{m.group(1)}">{m.group(1)}</a>'), text)
        text = STRONG.sub(r"<strong>\1</strong>", text)
        text = EMPHASIS.sub(r"<em>\1</em>", text)
        while "\0" in text:
            text = re.sub(r"\0(\d+)\0", lambda m: kept[int(m.group(1))], text)
        return text

    # Blocks -----------------------------------------------------------------------------------

    def blocks(self, lines):
        out, i = [], 0
        while i < len(lines):
            line = lines[i]
            if not line.strip():
                i += 1
                continue
            for kind in (self.fence, self.heading, self.table, self.quote, self.list):
                made, following = kind(lines, i)
                if made is not None:
                    out.append(made)
                    i = following
                    break
            else:
                made, i = self.paragraph(lines, i)
                out.append(made)
        return "\n".join(out)

    def fence(self, lines, i):
        opened = FENCE.match(lines[i])
        if not opened:
            return None, i
        indent, mark, info = opened.groups()
        body, i = [], i + 1
        while i < len(lines) and lines[i].strip() != mark:
            body.append(lines[i][len(indent):] if lines[i].startswith(indent) else lines[i])
            i += 1
        language = info.split()[0] if info else "text"
        name = re.search(r"\bfile=(\S+)", info)
        caption = f"<figcaption>{html.escape(name.group(1))}</figcaption>" if name else ""
        return (f'<figure class="code {html.escape(language)}">{caption}<pre tabindex="0"><code>'
                + self.code("\n".join(body), language) + "</code></pre></figure>"), i + 1

    @staticmethod
    def code(body, language):
        body = html.escape(body, quote=False)
        if language == "console":
            body = re.sub(r"^(\$ )(.*(?:\\\n.*)*)$", r'<span class="prompt">\1</span><b>\2</b>', body, flags=re.M)
        if language in ("sh", "python", "ini", "yaml"):
            body = re.sub(r"(^|\s)(#.*)$", r'\1<i class="comment">\2</i>', body, flags=re.M)
        return body

    def heading(self, lines, i):
        found = HEADING.match(lines[i])
        if not found:
            return None, i
        level, text = len(found.group(1)), found.group(2)
        anchor, number = slug(text), 0
        while anchor in self.anchors:
            number += 1
            anchor = f"{slug(text)}-{number}"
        self.anchors.add(anchor)
        if level == 1 and not self.title:
            self.title = plain(text)
        self.headings.append((level, anchor, plain(text)))
        return f'<h{level} id="{anchor}">{self.inline(text)}<a class="anchor" href="#{anchor}" aria-label="link to this section">#</a></h{level}>', i + 1

    def table(self, lines, i):
        if not lines[i].lstrip().startswith("|") or i + 1 >= len(lines) or not RULE.match(lines[i + 1].strip()):
            return None, i
        head = self.cells(lines[i])
        rows, i = [], i + 2
        while i < len(lines) and lines[i].lstrip().startswith("|"):
            rows.append(self.cells(lines[i]))
            i += 1
        out = ['<div class="table"><table>']
        if any(head):
            out.append("<thead><tr>" + "".join(f"<th>{self.inline(cell)}</th>" for cell in head) + "</tr></thead>")
        out.append("<tbody>")
        out += ["<tr>" + "".join(f"<td>{self.inline(cell)}</td>" for cell in row) + "</tr>" for row in rows]
        return "\n".join(out) + "</tbody></table></div>", i

    @staticmethod
    def cells(line):
        """Split at '|', but not at '\\|'."""
        line = line.strip().removeprefix("|")
        if line.endswith("|") and not line.endswith("\\|"):
            line = line[:-1]
        return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)]

    def quote(self, lines, i):
        if not lines[i].startswith(">"):
            return None, i
        body = []
        while i < len(lines) and lines[i].startswith(">"):
            body.append(re.sub(r"^> ?", "", lines[i]))
            i += 1
        return f"<blockquote>{self.blocks(body)}</blockquote>", i

    def list(self, lines, i):
        first = ITEM.match(lines[i])
        if not first:
            return None, i
        indent = len(first.group(1))
        kind = "ol" if first.group(2)[0].isdigit() else "ul"
        items = []
        while i < len(lines):
            found = ITEM.match(lines[i])
            if not found or len(found.group(1)) != indent:
                break
            width = indent + len(found.group(2)) + 1
            body, loose = [found.group(3)], False
            i += 1
            while i < len(lines):
                line = lines[i]
                if not line.strip():
                    following = next((later for later in lines[i:] if later.strip()), "")
                    if len(following) - len(following.lstrip()) <= indent:
                        break
                    body.append("")
                    loose = True
                elif len(line) - len(line.lstrip()) > indent:
                    body.append(line[min(width, len(line) - len(line.lstrip())):])
                elif ITEM.match(line) or HEADING.match(line) or line.lstrip().startswith(("|", "```")):
                    break
                else:
                    body.append(line.strip())  # a paragraph that continues without an indent
                i += 1
            items.append(self.item(body, loose))
            blank = i
            while blank < len(lines) and not lines[blank].strip():
                blank += 1
            following = ITEM.match(lines[blank]) if blank < len(lines) else None
            if following and len(following.group(1)) == indent and following.group(2)[0].isdigit() == (kind == "ol"):
                i = blank
        return f"<{kind}>" + "\n".join(f"<li>{item}</li>" for item in items) + f"</{kind}>", i

    def item(self, body, loose):
        made = self.blocks(body)
        if not loose and made.startswith("<p>"):
            made = made[3:].replace("</p>", "", 1)
        return made

    def paragraph(self, lines, i):
        body = []
        while i < len(lines) and lines[i].strip():
            if body and (FENCE.match(lines[i]) or HEADING.match(lines[i]) or ITEM.match(lines[i])
                         or lines[i].startswith(">")
                         or (lines[i].lstrip().startswith("|") and i + 1 < len(lines) and RULE.match(lines[i + 1].strip()))):
                break
            body.append(lines[i].strip())
            i += 1
        return f"<p>{self.inline(chr(10).join(body))}</p>", i
