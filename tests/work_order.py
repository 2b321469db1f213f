"""Which tests one worker runs together, and which are started first, when the suite runs in several processes."""

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

RULES = "tests/tidy/"
GATES = "tests/tidy/test_gates.py"
LONGEST = (
    "spark",
    "tests/spark/programs/",
    "tests/spark/cluster/",
    GATES,
    "tests/blackbox/interleaving/test_interleaving.py",
    "tests/blackbox/capacity/",
    "tests/unit/storage/",
    "tests/blackbox/cli/",
    "tests/blackbox/durability/",
    "tests/blackbox/",
)
"""What is started first, so that no worker runs alone at the end; short tests fill the gaps."""


WITHOUT_SPARK_SESSION = (
    "tests/spark/cluster/",
    "tests/spark/direct/",
    "tests/spark/programs/",
    "tests/spark/sink/writers/",
)
"""Spark tests that do not use the shared session, and so may run in any worker."""


class SharedTogetherLongestFirst(LoadScopeScheduling):
    """A file is run by one worker, as its tests may share a broker, and so are all that share the Spark session or
    the syntax trees of all files."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(RULES) and not nodeid.startswith(GATES):
            return RULES
        shares_session = nodeid.startswith("tests/spark/") and not nodeid.startswith(WITHOUT_SPARK_SESSION)
        return "spark" if shares_session else nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        scope = min(self.workqueue, key=_rank)
        self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


def _rank(scope: str) -> int:
    return next((number for number, start in enumerate(LONGEST) if scope.startswith(start)), len(LONGEST))
