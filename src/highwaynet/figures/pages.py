"""How HTML pages are made: one file each, without external resources, from the templates beside this file."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from highwaynet import __version__
from highwaynet.base.text import loss_text, percent


def render_page(template: str, **contents: Any) -> str:
    """Return a page as HTML; a name that the template uses and that is not given raises an error."""
    environment = Environment(
        loader=PackageLoader("highwaynet.figures", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "loss": loss_text}
    return environment.get_template(template).render(version=__version__, **contents)
