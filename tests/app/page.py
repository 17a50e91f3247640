"""What a browser would make of a report."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """Collects what a browser would act on."""

    VOID = frozenset({"meta", "br", "img", "link", "input", "hr"})

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.open, self.text = [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def words(html):
    """The text of a page."""
    return " ".join(" ".join(Page(html).text).split())
