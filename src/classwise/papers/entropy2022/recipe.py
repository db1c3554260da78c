"""How Entropy 2022 trains and attacks."""

from classwise.papers.entropy2022.networks import EVALUATIONS
from classwise.papers.scales import STEPS, Recipe

# Attacked by steps of .008; the paper does not say that TRADES starts from normal noise, as its code does, so neither does this.
_ATTACKED = ("pgd-at", "label-smoothing", "me-at", "single-class-at", "trades", "trades-smoothed", "me-trades")

# Its A.3.1 changes only lambda in the settings of RST (Carmon et al. 2019), whose code has these; its tests are at 8/255.
_RST = {
    "eps": "0.031",
    "batch": 256,
    "epochs": 200,
    "schedule": "cosine",
    "weight_decay": 5e-4,
    "nesterov": True,
    "attack": "pgd-10@trades",
    "select": None,
    "test_selected": False,
}

# What Tables 1 to 4 report: the best epoch by PGD-20 on test images. Under it standard training has no accuracy to select by.
_REPORTED = {one.attack: {"checkpoint": "test-selected"} for one in EVALUATIONS}

# Entropy 2022: .03125, batches of 64, 100 epochs, tenths from 75 and 90 on.
RECIPE = Recipe(
    run={
        **STEPS,
        "eps": "0.03125",
        "batch": 64,
        "keep_last": 5,
        "probe": "pgd-10@entropy2022",
        "select": "pgd-20@entropy2022",
        "select_by": "average",
        "test_selected": True,
    },
    defences={
        **{name: {"attack": "pgd-10@entropy2022"} for name in _ATTACKED},
        **{name: {"select": "clean"} for name in ("standard", "standard-smoothed")},
        "rst": _RST,
        "me-rst": _RST,
    },
    attacks={"pgd-20": {"attack": "pgd-20@entropy2022"}, "margin-20": {"attack": "margin-20@entropy2022"}},
    sections={"3-1-label-smoothing": _REPORTED, "3-2-2b-trade-off-and-fairness": _REPORTED},
)
