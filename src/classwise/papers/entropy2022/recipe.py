"""How Entropy 2022 trains and attacks."""

from classwise.papers.scales import STEPS, Recipe

# Entropy 2022: .03125, batches of 64, 100 epochs, tenths from 75 and 90 on; the mean over the last five epochs.
RECIPE = Recipe(
    run={**STEPS, "eps": "0.03125", "batch": 64, "keep_last": 5, "probe": "pgd-10@entropy2022"},
    defences={name: {"attack": "pgd-10@entropy2022"} for name in ("pgd-at", "label-smoothing", "me-at", "trades", "me-trades")},
    attacks={"pgd-20": {"attack": "pgd-20@entropy2022"}, "margin-20": {"attack": "margin-20@entropy2022"}},
)
