"""A form that attacks small networks in the page itself, without a kernel, a server or a file beside the page."""

import base64
import json
from collections.abc import Mapping
from importlib import resources
from string import Template
from typing import Any

import numpy as np
import xarray as xr

from classwise.charts.style import names_of
from classwise.core.markup import escape, printed_name

_ROW = '<div class="bar"><span>{}</span><i><b></b><u></u></i><span></span></div>'


def attack_form(networks: Mapping[str, Mapping[str, Any]], images: xr.Dataset, eps: str, *, small: bool = False) -> str:
    """Return the form in HTML: one image under attack, and how many images of each class fall.

    networks: `runs.layers` by defence, the second one chosen at first. images: of `runs.scenes`, 8 by 8 pixels of one channel.
    eps: the radius at first. small: without the choice of the attack and without drawing. Without networks, a sentence.
    """
    if not networks:
        return "<p>The networks of the digits are not trained yet, so that none can be attacked here.</p>"
    folder, names = resources.files("classwise.charts"), names_of(images, "predicted")
    template, style, script = (
        folder.joinpath(f"attack_form.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
    )
    pixels = np.rint(255 * images.pixels.values).astype(np.uint8)
    data = {
        "networks": {name: {**described, "values": _text(described["values"])} for name, described in networks.items()},
        "pixels": _text(pixels),
        "truth": images.truth.values.tolist(),
        "classes": names,
    }
    filled = Template(template).substitute(
        kind=" small" if small else "",
        networks="".join(_option(name, printed_name(name), chosen=place == 1) for place, name in enumerate(networks)),
        classes="".join(_option(str(place), name) for place, name in enumerate(names)),
        rows="".join(_ROW.format(escape(name)) for name in names),
        eps=eps,
        data=json.dumps(data),
    )
    return f"<style>{style}</style>{filled}<script>{script}</script>"


def _text(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode()


def _option(value: str, title: str, *, chosen: bool = False) -> str:
    return f'<option value="{escape(value)}"{" selected" * chosen}>{escape(title)}</option>'
