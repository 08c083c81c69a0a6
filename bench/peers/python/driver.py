"""A library from PyPI as one contender of the benchmark: it reads one job a line and writes one answer a line, as the
children in Rust do (src/child/mod.rs), whose jobs and answers these are. A task is a thread.

    python driver.py LIBRARY child SETUP
"""

import json
import struct
import sys
import threading
import time

import libraries


class Meter:
    def __init__(self):
        self.wall, self.processor = time.monotonic_ns(), time.process_time_ns()

    def read(self):
        wall, processor = time.monotonic_ns() - self.wall, time.process_time_ns() - self.processor
        return {"wall_ns": wall, "processor_ns": processor}


def quantile(numbers, share):
    return numbers[round((len(numbers) - 1) * share)] if numbers else 0


def side_by_side(count, work):
    """Runs `work` of each number in a thread of its own; the first error is ours too."""
    errors = []

    def run(number):
        try:
            work(number)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def pairs(library, job):
    meter = Meter()
    end = time.monotonic_ns() + job["ms"] * 1_000_000
    latencies = []

    def work(task):
        turn = library(job["prefix"] if job["one_name"] else f"{job['prefix']}{task}", job["want"])
        before = time.monotonic_ns()
        while before < end:
            turn()
            after = time.monotonic_ns()
            latencies.append(after - before)
            before = after

    side_by_side(job["tasks"], work)
    latencies.sort()
    p50, p99 = quantile(latencies, 0.5), quantile(latencies, 0.99)
    return {"Pairs": {"pairs": len(latencies), "cost": meter.read(), "p50_ns": p50, "p99_ns": p99}}


def turns(library, job):
    """Of a limiter only: no other library here waits for others."""
    time.sleep(max(0, job["begin_ns"] - time.monotonic_ns()) / 1e9)
    meter = Meter()
    records = []

    def work(waiter):
        turn = library(job["name"], job["want"])
        wanted = time.monotonic_ns()
        while wanted < job["end_ns"]:
            permits = turn()
            granted = time.monotonic_ns()
            if permits:  # a try that got nothing is no turn
                records.append((waiter, wanted, granted, granted, 0, permits))
            wanted = granted

    side_by_side(job["waiters"], work)
    with open(job["file"], "wb") as file:
        file.writelines(struct.pack("<6Q", *record) for record in records)
    return {"Turns": {"turns": len(records), "failures": 0, "failed": None, "cost": meter.read()}}


def answer(library, line):
    try:
        job = json.loads(line)
        if "Pairs" in job:
            return pairs(library, job["Pairs"])
        if "Turns" in job:
            return turns(library, job["Turns"])
        raise ValueError(f"a job that nobody knows: {line}")
    except Exception as error:
        return {"Failed": f"{type(error).__name__}: {error}"}


def main():
    wanted, _, setup = sys.argv[1:]
    library = libraries.ALL[wanted](json.loads(setup)["urls"][0])
    for line in sys.stdin:
        print(json.dumps(answer(library, line)), flush=True)


if __name__ == "__main__":
    main()
