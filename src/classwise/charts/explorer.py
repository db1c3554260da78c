"""Controls of charts: those of Vega in a static page, ipywidgets in JupyterLab.

The controls of a static page need no kernel. Widgets can also show what only a kernel can compute. `live` decides; None calls
`style.live()`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import altair as alt

from classwise.charts import style

Show = Callable[..., object]
# A ring that turns, drawn by the browser while the kernel computes.
_SPINNER = """<style>@keyframes classwise-turn { to { transform: rotate(1turn); } }
.classwise-spinner { display: inline-block; width: 1em; height: 1em; vertical-align: -0.15em; border: 0.15em solid #8886;
border-top-color: currentColor; border-radius: 50%; animation: classwise-turn 0.9s linear infinite; }</style>
<span role="status"><span class="classwise-spinner"></span> attacking the images …</span>"""


@dataclass(frozen=True)
class Choice:
    """One control: a drop-down list of `options`, or a slider where these are numbers in even steps.

    name: of the chart's parameter, different from all columns of its data. label: what the reader sees.
    """

    name: str
    options: Sequence[Any]
    value: Any
    label: str

    @property
    def slider(self) -> tuple[float, float, float] | None:
        """Lowest and highest value and step of a slider; None for a drop-down list."""
        numbers = [option for option in self.options if isinstance(option, int | float)]
        steps = {round(after - before, 9) for before, after in pairwise(numbers)}
        return (numbers[0], numbers[-1], steps.pop()) if len(numbers) == len(self.options) and len(steps) == 1 else None

    def param(self, *, bound: bool) -> alt.Parameter:
        """Return the chart's parameter; if `bound`, with a control of Vega."""
        if not bound:
            return alt.param(name=self.name, value=self.value)
        if self.slider:
            low, high, step = self.slider
            control: Any = alt.binding_range(min=low, max=high, step=step, name=self.label)
        else:
            control = alt.binding_select(options=list(self.options), name=self.label)
        return alt.param(name=self.name, value=self.value, bind=control)

    def widget(self) -> Any:
        """Return the ipywidget."""
        import ipywidgets

        kind = ipywidgets.SelectionSlider if self.slider else ipywidgets.Dropdown
        style = {"description_width": "initial"}  # the label is not cut
        return kind(options=list(self.options), value=self.value, description=self.label, style=style)


def explorer(chart: Any, choices: Sequence[Choice], show: Show | None = None, live: bool | None = None) -> Any:
    """Return a chart with controls; in a live kernel `show(**choices)` is displayed below it and again after each change.

    `show` may have an attribute `choices`: controls of its display alone.
    """
    if not (style.live() if live is None else live):
        return chart.add_params(*[choice.param(bound=True) for choice in choices])
    import ipywidgets
    from IPython.display import HTML, display

    alt.JupyterChart.enable_offline(True)
    view = alt.JupyterChart(chart.add_params(*[choice.param(bound=False) for choice in choices]))
    more = () if show is None else getattr(show, "choices", ())
    boxes, below = {choice.name: choice.widget() for choice in (*choices, *more)}, ipywidgets.Output()

    def again(*_: object) -> None:
        if show is not None:
            with below:
                below.clear_output()
                display(HTML(_SPINNER))
                shown = show(**{name: box.value for name, box in boxes.items()})
                below.clear_output(wait=True)
                display(shown)

    for box in boxes.values():
        box.observe(again, "value")
    for choice in choices:
        ipywidgets.link((boxes[choice.name], "value"), (view.params, choice.name))
    again()
    return ipywidgets.VBox([ipywidgets.HBox(list(boxes.values()), layout={"flex_flow": "row wrap"}), view, below])
