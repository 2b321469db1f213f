"""A consumer as a process: takes one job, says so, and leaves its block when it is told to.

    python job_worker.py ADDRESS TOPIC GROUP

It prints `job VALUE ATTEMPT` when it has the job, reads a line, leaves the block, and prints `done` or the code of
the error that leaving raised.
"""

import sys

import quiver


def main(address: str, topic: str, group: str) -> None:
    with quiver.connect(address) as q, q.work(topic, group=group, prefetch=0) as work:
        job = next(iter(work))
        try:
            with job:
                print("job", (job.value or b"").decode(), job.attempt, flush=True)
                sys.stdin.readline()
            print("done", flush=True)
        except quiver.QuiverError as error:
            print(error.code, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
