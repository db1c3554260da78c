"""Table 4 of Tian et al. 2021: predictions for images on their background and on white."""

import pandas as pd
import xarray as xr

from classwise.stats.aggregate import counts


def table_4(treated: xr.Dataset, label: str) -> pd.DataFrame:
    """Return the predictions for the images of a class, a line for each attack and treatment (Tian 2021, Table 4).

    Numbers of images, with their change from the first treatment: "56 (+3)". treated: along attack and treatment.
    """
    count = counts(treated).sum(["defence", "seed"]).sel(label=label, drop=True)
    each = (one.stack(line=("attack", "treatment")).transpose("line", ...) for one in (count, count - count.isel(treatment=0)))
    table, change = (one.to_pandas() for one in each)
    text = table.map("{:.0f}".format)
    treated_lines = text.index.get_level_values("treatment") != count.treatment.values[0]
    text[treated_lines] += change[treated_lines].map(" ({:+.0f})".format)
    return pd.DataFrame(text.set_axis([", ".join(line) for line in text.index])).rename_axis(columns="predicted class")
