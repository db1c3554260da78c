"""What the sections of Tian et al. 2021 train and attack; claims take the first of "a|b" that has results."""

# Figures 1 and 2. ImageNet, too, where a reader names it: 150 GB that nobody may hand on, and more images than a GPU holds.
BIASED = ("standard", "pgd-at", "trades")
OTHERS = {"paper": ("mnist", "svhn", "stl10", "cifar100")}

# Tables 1 and 3.
COMPARED = ("pgd-at", "trades", "mart", "pgd-he")
HE = "pgd-he|trades-he"
FOUR = ("pgd-at", "trades", "mart", HE)

UNDER_ATTACK = "pgd-20|pgd-40|pgd-50"
