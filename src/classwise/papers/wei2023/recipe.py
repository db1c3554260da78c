"""How Wei et al. 2023 train."""

from classwise.papers.scales import Recipe

# Attacked in train mode; TRADES and FRL are attacked in eval mode, by steps from normal noise. All steps are 2/255 even where a
# class has a smaller or larger radius. FRL's second form steps by a share of the radius. A test compares with DEFENCES which
# ones have the loss of TRADES.
_TRADES = (
    *("trades-normalised", "trades-ema", "trades-ccm", "trades-ccr", "trades-ccm-ccr", "trades-cfa", "trades-he"),
    *("trades-per-class", "trades-smoothed", "me-trades", "rst", "me-rst", "frl-rw", "dafa", "wat", "csr"),
)

# Wei 2023: PreActResNet-18, 8/255, 200 epochs, tenths at 100 and 150, mirrored edges; the best epoch by average plus worst class
# (its code looks at the test images for that: test_selected).
RECIPE = Recipe(
    run={
        "model": "preact-resnet18",
        "eps": "8/255",
        "augment": "crop-flip-reflect",
        "schedule": "step",
        "epochs": 200,
        "nesterov": False,
        "weight_decay": 5e-4,
        "batch_norm": "train",
        "select": "pgd-10@wei2023",
        "select_by": "sum",
        "test_selected": True,
        "probe": "pgd-10@wei2023",
    },
    defences={
        **{name: {"attack": "pgd-10@wei2023"} for name in ("pgd-at", "at-ema", "at-fawa", "at-ccm", "at-cfa")},
        **{name: {"attack": "pgd-10@wei2023-trades", "batch_norm": "eval"} for name in _TRADES},
        # Its TRADES divides the loss by 1 + beta.
        "trades": {"attack": "pgd-10@wei2023-trades", "batch_norm": "eval", "options": {"normalised": True}},
        **{name: {"attack": "friendly-10@wei2023"} for name in ("fat", "fat-constant", "fat-ccm", "fat-cfa")},
        **{name: {"batch_norm": "eval"} for name in ("fat-trades", "frl-rmrw")},
    },
    # C.1.
    datasets={"tiny-imagenet": {"model": "resnet18", "select_by": "sum-fifth"}},
)
