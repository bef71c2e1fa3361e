"""Runs the figures of the conformance suite and our own, prints one table with the goals. See README.md.

    report.py BUILD OPTIONS [figure ...]
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SUITE = HERE.parent / "conformance"
sys.path[:0] = [str(SUITE), str(SUITE / "bench")]

from driver import Load, build  # noqa: E402
from kit.target import Parley  # noqa: E402
from main import number  # noqa: E402

OUTSIDE = ("start", "memory", "messages", "latency", "streams", "http", "websockets", "crash")

# (figure, start of what is measured) -> goals; "x": times the value beside it, "+": added to it.
GOALS = {
    ("start", "empty data directory"): ["<=50"],
    ("memory", "20 bots"): ["<=25"],
    # None: less than a page of memory for each hundred messages.
    ("memory", "growth"): ["<=0.04"],
    ("messages", "complete answers"): [">=3000", ">=0.12x"],
    ("messages", "CPU of the target"): ["<=300", "<=12x"],
    ("latency", "to the model p99"): ["<=5+"],
    ("streams", "memory of an open stream"): ["<=60"],
    ("streams", "delay of a delta p99"): ["<=100"],
    ("http", "/healthz"): [">=0.5x"],
    ("http", "a bot by id"): [">=0.25x"],
    ("websockets", "memory of an idle chat"): ["<=12"],
    ("crash", "lost"): ["<=0"],
    ("crash", "doubled"): ["<=0"],
    ("raw", "/healthz, one core"): [">=0.8x"],
}


def goals_of(figure, what):
    for (f, start), goals in GOALS.items():
        if f == figure and what.startswith(start):
            return goals
    return []


def reached(value, beside, goal):
    number_text = goal[2:].rstrip("x+")
    limit = float(number_text)
    if goal.endswith(("x", "+")):
        if beside is None:
            return False
        limit = limit * beside if goal.endswith("x") else limit + beside
    return value <= limit if goal.startswith("<=") else value >= limit


def outside(figures, build_dir, options):
    """Rows of the conformance bench; its own table is left out, its errors are shown."""
    with tempfile.NamedTemporaryFile(suffix=".json") as f:
        subprocess.run([SUITE / "bench" / "run", "--target", "parley", "--command", f"{build_dir}/parley serve",
                        "--json", f.name, *(["--messages", "40000"] if not options else []), *options, *figures],
                       stdout=subprocess.DEVNULL, check=False)
        try:
            got = json.load(open(f.name, encoding="utf-8"))["figures"]
        except ValueError:
            got = {}
    rows = []
    for name in figures:
        figure = got.get(name, {"error": "not taken"})
        if "error" in figure:
            rows.append((name, "FAILED: " + figure["error"].splitlines()[0][:100], None, "", None, "", ["failed"]))
            continue
        rows += [(name, what, value, unit, beside, note, goals_of(name, what))
                 for what, value, unit, beside, note in figure["rows"]]
    return rows


def raw(build_dir, seconds):
    """/healthz against the epoll responder: the server has one core, the generator the other."""
    cores = sorted(os.sched_getaffinity(0))
    served, asking = {cores[0]}, {cores[-1]}
    os.sched_setaffinity(0, asking)
    load = Load(build())
    os.sched_setaffinity(0, served)

    def rate(address):
        ask = {"address": address, "path": "/healthz", "headers": {}, "connections": 64}
        load.ask("get", **ask, seconds=1)
        got = load.ask("get", **ask, seconds=seconds)
        return got["requests"] / got["seconds"]

    responder = subprocess.Popen([build_dir / "tests" / "bench_responder"], stdout=subprocess.PIPE, text=True)
    target = Parley(f"{build_dir}/parley serve")
    try:
        floor = rate(f"127.0.0.1:{responder.stdout.readline().strip()}")
        target.start()
        value = rate(f"127.0.0.1:{target.port}")
    finally:
        responder.kill()
        responder.wait()
        target.destroy()
        load.close()
        os.sched_setaffinity(0, cores)
    what = "/healthz, one core"
    return [("raw", what, value, "1/s", floor, "beside: a raw epoll responder", goals_of("raw", what))]


def inside(build_dir):
    rows = []
    for program in sorted((build_dir / "tests").glob("bench_*")):
        if program.name == "bench_responder" or not program.is_file() or not os.access(program, os.X_OK):
            continue
        name = program.name.removeprefix("bench_")
        done = subprocess.run([program], capture_output=True, text=True, timeout=300, check=False)
        for line in done.stdout.splitlines():
            what, value, unit, beside, goal = (line.split("\t") + [""] * 5)[:5]
            rows.append((name, what, float(value), unit, float(beside) if beside else None, "", goal.split()))
        if done.returncode:
            rows.append((name, f"FAILED: exit status {done.returncode}", None, "", None, "", ["failed"]))
            sys.stderr.write(done.stderr)
    return rows


def print_table(rows):
    lines, missed = [("figure", "what", "value", "unit", "beside", "ratio", "goal", "", "note")], 0
    for figure, what, value, unit, beside, note, goals in rows:
        verdict = ""
        if value is None:
            verdict = "MISS"
        elif goals:
            verdict = "ok" if all(reached(value, beside, g) for g in goals) else "MISS"
        missed += verdict == "MISS"
        shown = " and ".join(g.replace("x", " x beside").replace("<=", "≤ ").replace(">=", "≥ ") if not g.endswith("+")
                             else f"≤ beside + {g[2:-1]}" for g in goals if g != "failed")
        lines.append((figure, what, number(value), unit, number(beside), f"{value / beside:.3g}" if beside and value is not None else "",
                      shown, verdict, note))
    widths = [max(len(line[k]) for line in lines) for k in range(8)]
    for line in lines:
        cells = [c.rjust(w) if k in (2, 4, 5) else c.ljust(w) for k, (c, w) in enumerate(zip(line, widths))]
        print("  ".join([*cells, line[-1]]).rstrip())
    return missed


def main():
    build_dir = Path(sys.argv[1]).resolve()
    options, figures = shlex.split(sys.argv[2]), sys.argv[3:] or [*OUTSIDE, "raw", "inside"]
    unknown = set(figures) - {*OUTSIDE, "raw", "inside"}
    if unknown:
        sys.exit(f"no figure {', '.join(sorted(unknown))}; there are {', '.join(OUTSIDE)}, raw, inside")
    rows = []
    wanted = [f for f in figures if f in OUTSIDE]
    if wanted:
        rows += outside(wanted, build_dir, options)
    if "raw" in figures:
        rows += raw(build_dir, 2 if "--small" in options else 10)
    if "inside" in figures:
        rows += inside(build_dir)
    missed = print_table(rows)
    print(f"{missed} missed" if missed else "no miss")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
