"""All claims, in the order of the paper."""

from highwaynet.experiments.claims import Claim
from highwaynet.experiments.depth import INITIALISATION, REPORT_2021, THOUSAND
from highwaynet.experiments.figures_2_to_4 import FIG2, FIG3, FIG4
from highwaynet.experiments.optimisation import CONVERGENCE, FIG1
from highwaynet.experiments.tables import REPORT_2016, TABLE1, TABLE2, TABLE3

CLAIMS: dict[str, Claim] = {
    claim.name: claim
    for claim in (
        FIG1,
        CONVERGENCE,
        THOUSAND,
        INITIALISATION,
        TABLE1,
        TABLE2,
        TABLE3,
        FIG2,
        FIG3,
        FIG4,
        REPORT_2016,
        REPORT_2021,
    )
}
