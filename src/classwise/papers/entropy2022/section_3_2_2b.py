"""Entropy 2022, section 3.2.2, Tables 2 to 4: maximum entropy, the trade-off and the worst class.

Claims name networks as `networks.NETWORKS` does, and "best": of either method with the lambda that is selected on validation
images.
"""

from functools import partial

from classwise.papers.entropy2022 import networks
from classwise.papers.entropy2022.networks import NETWORKS, PLAIN
from classwise.papers.sections import Arranged, Section

NAME = "entropy2022/3-2-2b-trade-off-and-fairness"
_OTHERS = tuple(name for name in NETWORKS if name not in PLAIN)

SECTION = Section(
    title="Maximum entropy: trade-off and fairness",
    defences=("pgd-at", "trades"),
    evaluations=networks.EVALUATIONS,
    max_seeds=1,
    parts={name: networks.part(name) for name in _OTHERS},
    arrange={"networks": Arranged(partial(networks.by_network, _OTHERS), ("",), _OTHERS)},
)
CLAIMS = ()
