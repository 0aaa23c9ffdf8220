"""Reads pages of results, and refuses those that are not well formed."""

from html.parser import HTMLParser


class Reader(HTMLParser):
    """Open tags, in order, with a check that they are closed in turn."""

    def __init__(self, text: str):
        super().__init__()
        self.stack, self.tags, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def of_class(self, name: str) -> list[dict[str, str]]:
        """Attributes of the tags of a class."""
        return [attributes for _, attributes in self.tags if name in attributes.get("class", "").split()]
