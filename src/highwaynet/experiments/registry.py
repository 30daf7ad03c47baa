"""All claims, in the order of the paper; those of the reports come last."""

from highwaynet.experiments.claims import Claim
from highwaynet.experiments.convergence import CONVERGENCE, SHALLOW
from highwaynet.experiments.depth import INITIALISATION, THOUSAND
from highwaynet.experiments.figure_2 import FIG2
from highwaynet.experiments.figures_3_and_4 import FIG3, FIG4
from highwaynet.experiments.needed_depth import NEEDED_DEPTH
from highwaynet.experiments.optimisation import FIG1
from highwaynet.experiments.race import FITNETS, RACE_DENSE, RACE_MAXOUT
from highwaynet.experiments.report_2016 import REPORT_2016
from highwaynet.experiments.report_2021 import REPORT_2021
from highwaynet.experiments.small_claims import CARRY, RMSPROP, SUPERVISION
from highwaynet.experiments.tables import TABLE1, TABLE2, TABLE3
from highwaynet.experiments.thin_maxout import THIN_MAXOUT

CLAIMS: dict[str, Claim] = {
    claim.name: claim
    for claim in (
        FIG1,
        CONVERGENCE,
        CARRY,
        THOUSAND,
        INITIALISATION,
        TABLE1,
        TABLE2,
        THIN_MAXOUT,
        FITNETS,
        RACE_MAXOUT,
        RACE_DENSE,
        TABLE3,
        FIG2,
        FIG3,
        FIG4,
        NEEDED_DEPTH,
        SUPERVISION,
        REPORT_2016,
        SHALLOW,
        RMSPROP,
        REPORT_2021,
    )
}
WITHOUT_A_CLAIM = (
    "accuracies of other networks in tables 1 to 3 (FitNet B, Maxout, DSN, NiN, All-CNN, dasNet): shown as they were reported",
    "the guideline for gate biases of convolutional networks (−1, −2, −3 for about 10, 20, 30 layers)",
    "the pilot block that resembles an LSTM cell (footnote 2)",
    "the 2016 report's heat maps, and the 2021 report's own figures 8 to 10, which repeat figures 1, 2 and 4",
)
"""Statements of the paper and the reports that no claim tests."""
