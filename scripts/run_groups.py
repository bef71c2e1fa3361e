"""Runs groups of the conformance suite side by side, each as a process of its own.   run_groups.py DATABASE RESULTS JOBS [group ...]

RESULTS gets for each group DATABASE-GROUP.log and .xml, for all DATABASE.counts ("passed failed skipped"). A group that
ends badly without a counted failure (a crash, its time is over) is one failure. Nothing that a group started outlives it:
each has a temporary folder of its own, and what still names that folder when the group has ended is killed.
GROUP_SECONDS: most that a group may take (600). Ends with 1 if anything failed.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECONDS = int(os.environ.get("GROUP_SECONDS", "600"))
COMMAND = (os.environ.get("PARLEY") or str(ROOT / os.environ.get("BUILD", "build") / "parley")) + " serve"
printing = threading.Lock()
stopping = threading.Event()


def leftovers(home):
    """Processes whose environment or arguments name the temporary folder of a group."""
    name = home.encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if name in (entry / "environ").read_bytes() or name in (entry / "cmdline").read_bytes():
                    yield int(entry.name)
            except OSError:
                pass


def reap(home):
    for sig in (signal.SIGQUIT, signal.SIGKILL):  # PostgreSQL ends its children on the first
        left = list(leftovers(home))
        for pid in left:
            try:
                os.kill(pid, sig)
            except ProcessLookupError:
                pass
        if not left:
            break
        time.sleep(1)
    shutil.rmtree(home, ignore_errors=True)


def sums(report):
    """(passed, failed, skipped, names of what failed) of a JUnit file."""
    if not report.exists():
        return 0, 0, 0, []
    passed = failed = skipped = 0
    names = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            failed += 1
            names.append(f"{case.get('classname')}::{case.get('name')}")
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped, names


def run(database, results, group):
    home = tempfile.mkdtemp(prefix="parley-test-")
    os.chmod(home, 0o755)  # PostgreSQL runs as another user
    report, log = results / f"{database}-{group}.xml", results / f"{database}-{group}.log"
    began = time.monotonic()
    # The command stands next to the groups: pytest's early look at its options takes one with a space in it for a path.
    argv = [ROOT / "tests/conformance/run", "--target", "parley", "--database", database, "--command", COMMAND, group,
            "--", "-p", "not_due", f"--junit-xml={report}"]
    note = ""
    try:
        with open(log, "wb") as out:
            process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                       env={**os.environ, "TMPDIR": home, "PYTHONPATH": str(ROOT / "tests")})
            while (status := process.poll()) is None:
                if stopping.is_set() or time.monotonic() - began > SECONDS:
                    note = "  stopped: it took too long"
                    process.send_signal(signal.SIGINT)  # pytest writes its report and ends what it started
                    try:
                        process.wait(60)
                    except subprocess.TimeoutExpired:
                        process.kill()
                    status = process.wait()
                    break
                time.sleep(0.2)
    finally:
        reap(home)
    passed, failed, skipped, names = sums(report)
    if note or (status and not failed):
        failed += 1
    with printing:
        print(f"{group:16} {passed:5} passed {failed:4} failed {skipped:4} skipped {time.monotonic() - began:5.0f} s{note}", flush=True)
        if failed:
            print("".join(f"    {name}\n" for name in names), end="")
            if os.environ.get("GROUP_LOGS", "1") == "1":
                print("".join(log.read_text("utf-8", "replace").splitlines(keepends=True)[-300:]), flush=True)
    return passed, failed, skipped


def main():
    database, results, jobs, groups = sys.argv[1], Path(sys.argv[2]).resolve(), int(sys.argv[3]), sys.argv[4:]
    results.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    signal.signal(signal.SIGINT, lambda *_: stopping.set())
    with ThreadPoolExecutor(jobs) as pool:
        total = [sum(part) for part in zip(*pool.map(lambda g: run(database, results, g), groups))]
    (results / f"{database}.counts").write_text("{} {} {}\n".format(*total))
    sys.exit(1 if total[1] or stopping.is_set() else 0)


main()
