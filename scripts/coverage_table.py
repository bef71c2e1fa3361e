"""Lines covered by folder, of all and of authentication and tenancy.   coverage_table.py SUMMARY MIN MIN_AUTH [--counts FILE]

SUMMARY is what `llvm-cov export -summary-only` writes. FILE gets "passed failed skipped" of the two thresholds. Ends with 1
if one is not reached.
"""

import collections
import fnmatch
import json
import sys
from pathlib import Path

SRC = Path(__file__).resolve().parents[1] / "src"
# Who asks, what they may, whose data it is, and the secrets of that.
AUTH = ("tenant/*", "crypto/*", "api/api.c", "api/auth.c", "api/user.c", "api/apikey.c", "api/workspace.c", "api/space.c",
        "store/identity.c", "store/invitation.c")


def main():
    least = {"all lines": float(sys.argv[2]), "authentication and tenancy": float(sys.argv[3])}
    lines, run = collections.Counter(), collections.Counter()
    seen = set()
    for entry in json.loads(Path(sys.argv[1]).read_text())["data"][0]["files"]:
        path = Path(entry["filename"]).resolve()
        if not path.is_relative_to(SRC):
            continue
        name = path.relative_to(SRC).as_posix()
        groups = {name.split("/")[0], "all lines"}
        if kind := next((p for p in AUTH if fnmatch.fnmatch(name, p)), None):
            groups.add("authentication and tenancy")
            seen.add(kind)
        for group in groups:
            lines[group] += entry["summary"]["lines"]["count"]
            run[group] += entry["summary"]["lines"]["covered"]
    assert seen == set(AUTH), f"no such file: {set(AUTH) - seen}"
    reached = 0
    for group in [*sorted(set(lines) - set(least)), *least]:
        share = 100 * run[group] / lines[group]
        text = f"{group:26} {share:5.1f} % of {lines[group]:5} lines"
        if group in least:
            reached += share >= least[group]
            text += f"  (at least {least[group]:g} %{'' if share >= least[group] else ': NOT REACHED'})"
        print(text)
    if "--counts" in sys.argv:
        Path(sys.argv[sys.argv.index("--counts") + 1]).write_text(f"{reached} {len(least) - reached} 0\n")
    sys.exit(reached < len(least))


main()
