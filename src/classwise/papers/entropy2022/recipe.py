"""How Entropy 2022 trains and attacks."""

from classwise.papers.scales import STEPS, Recipe

# Attacked by steps of .008; the paper does not say that TRADES starts from normal noise, as its code does, so neither does this.
_ATTACKED = ("pgd-at", "label-smoothing", "me-at", "single-class-at", "trades", "trades-smoothed", "me-trades")

# Its A.3.1 changes only lambda in the settings of RST (Carmon et al. 2019), whose code has these.
_RST = {
    "eps": "8/255",
    "batch": 256,
    "epochs": 200,
    "schedule": "cosine",
    "weight_decay": 5e-4,
    "nesterov": True,
    "attack": "pgd-10@trades",
    "select": None,
    "test_selected": False,
}

# Entropy 2022: .03125, batches of 64, 100 epochs, tenths from 75 and 90 on, and the best epoch by PGD-20 on test images. That of
# the mean over the last five epochs is a replacement without this choice.
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
    defences={**{name: {"attack": "pgd-10@entropy2022"} for name in _ATTACKED}, "rst": _RST, "me-rst": _RST},
    attacks={"pgd-20": {"attack": "pgd-20@entropy2022"}, "margin-20": {"attack": "margin-20@entropy2022"}},
)
