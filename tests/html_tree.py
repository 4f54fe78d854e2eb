"""An HTML page as a tree of elements, by the standard library's parser: what tests of pages ask of it."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr", "use", "path", "rect", "image", "circle", "line", "polygon"}


@dataclass
class Element:
    """One element: its name, attributes, children in order, and the text directly inside."""

    tag: str
    attributes: dict[str, str]
    parent: "Element | None" = None
    children: list["Element"] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def walk(self):
        """The element and all below it, in document order."""
        yield self
        for child in self.children:
            yield from child.walk()

    def all(self, tag: str) -> list["Element"]:
        """Elements of a name below this one."""
        return [at for at in self.walk() if at.tag == tag and at is not self]

    @property
    def text(self) -> str:
        """All text below, in document order as far as texts of one element stand together."""
        return "".join([*self.texts, *(child.text for child in self.children)])


class _Builder(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = self.at = Element("#document", {})

    def handle_starttag(self, tag, attrs):
        assert len({name for name, _ in attrs}) == len(attrs), f"<{tag}> has an attribute twice"
        child = Element(tag, {name: value or "" for name, value in attrs}, self.at)
        self.at.children.append(child)
        if tag not in VOID:
            self.at = child

    def handle_startendtag(self, tag, attrs):
        self.at.children.append(Element(tag, {name: value or "" for name, value in attrs}, self.at))

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        assert self.at.tag == tag, f"</{tag}> closes <{self.at.tag}>"
        self.at = self.at.parent or self.root

    def handle_data(self, data):
        self.at.texts.append(data)


def parse(text: str) -> Element:
    """The document; an AssertionError where tags are not closed in order."""
    builder = _Builder()
    builder.feed(text)
    builder.close()
    assert builder.at is builder.root, f"<{builder.at.tag}> is not closed"
    return builder.root
