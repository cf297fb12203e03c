"""Judge many velocity features by brute force: `python -m tests.bench.velocity_values [streams]`.

Each stream is one key; its features of every metric, field and window are compared with the judge's where
transactions arrive. Ends with 1 when a value is wrong, or not exact though the row has each of its events.
"""

import sys
from typing import Final

from tests.rules.velocity_streams import stream_findings

STREAMS: Final = 60
PAYMENTS: Final = 1_200
SAMPLES: Final = 8


def main(streams: int) -> int:
    """Print how many values were judged and what was found; return the status."""
    judged, exact, wrong = 0, 0, list[str]()
    for seed in range(streams):
        count, exactly, findings = stream_findings(seed, PAYMENTS, SAMPLES)
        judged, exact, wrong = judged + count, exact + exactly, wrong + findings
    sys.stdout.write(f"values={judged} exact={exact} wrong={len(wrong)}\n")
    sys.stdout.writelines(f"{one}\n" for one in wrong[:20])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else STREAMS))
