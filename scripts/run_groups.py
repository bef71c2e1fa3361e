"""Runs groups of the conformance suite side by side, each as a process of its own.   run_groups.py DATABASE RESULTS JOBS [group ...]

RESULTS gets for each group DATABASE-GROUP.log and .xml, for all DATABASE.counts ("passed failed skipped"). A group that
ends badly without a counted failure (a crash, its time is over) is one failure. DATABASE.red gets the cases of
tests/known_red.txt and what became of them. Nothing that a group started outlives it:
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
LINES = 400  # of the log of a group that failed
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


class Sums:
    """What a JUnit file says. `red` are the cases of tests/known_red.txt, `cured` those among them that passed."""

    def __init__(self, report):
        self.passed = self.skipped = 0
        self.failed, self.red, self.cured = [], [], []
        cases = ElementTree.parse(report).getroot().iter("testcase") if report.exists() else ()
        for case in cases:
            name = f"{case.get('classname')}::{case.get('name')}".removeprefix("tests.conformance.groups.").removeprefix("groups.")
            bad = [child for child in case if child.tag in ("failure", "error")]
            skipped = case.find("skipped")
            if bad and bad[0].get("message", "").startswith("[XPASS(strict)]"):
                self.cured.append(name)
                self.passed += 1
            elif bad:
                self.failed.append(name)
            elif skipped is not None:
                self.skipped += 1
                if skipped.get("type") == "pytest.xfail":
                    self.red.append(f"{name}: {skipped.get('message')}")
            else:
                self.passed += 1


def run(database, results, group):
    """One group to its end; (Sums, number of failures)."""
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
    found = Sums(report)
    failed = len(found.failed)
    if note or (status and not failed and not found.cured):
        failed += 1
        note = note or f"  ended with {status}"
    with printing:
        print(f"{group:16} {found.passed:5} passed {failed:4} failed {found.skipped:4} skipped "
              f"{time.monotonic() - began:5.0f} s{note}", flush=True)
        if failed:
            print("".join(f"    {name}\n" for name in found.failed), end="")
            print("".join(log.read_text("utf-8", "replace").splitlines(keepends=True)[-LINES:]), flush=True)
    return found, failed


def main():
    database, results, jobs, groups = sys.argv[1], Path(sys.argv[2]).resolve(), int(sys.argv[3]), sys.argv[4:]
    results.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    signal.signal(signal.SIGINT, lambda *_: stopping.set())
    with ThreadPoolExecutor(jobs) as pool:
        done = list(pool.map(lambda g: run(database, results, g), groups))
    failed = sum(f for _, f in done)
    (results / f"{database}.counts").write_text(
        f"{sum(s.passed for s, _ in done)} {failed} {sum(s.skipped for s, _ in done)}\n")
    told = [f"fails   {name}" for s, _ in done for name in s.red]
    told += [f"PASSES  {name}: take it off tests/known_red.txt" for s, _ in done for name in s.cured]
    (results / f"{database}.red").write_text("".join(f"{line}\n" for line in told))
    sys.exit(1 if failed or stopping.is_set() else 0)


main()
