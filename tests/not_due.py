"""A pytest plugin for `make test`: skips the conformance cases of parts that are not built yet, with the reason.

`not_due.txt` has one line for each kind of case: a regular expression that is searched in "DATABASE NODE_ID", two or more
spaces, the reason. Cases about an adapter or a requester are not due while metadata/ has no manifest of that name: the product
does not list what does not work.

`known_red.txt`, in the same form, names cases that are due and fail. They run and are expected to fail; one that passes is
told, so that it leaves the list. `make test` prints them in a block of its own and counts them as skipped.
"""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
METADATA = HERE.parent / "metadata"


def rules(name):
    for line in (HERE / name).read_text("utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, reason = re.split(r" {2,}", line.strip(), maxsplit=1)
            yield re.compile(pattern), reason


def built(kind):
    return {p.stem for p in (METADATA / kind).glob("*.yaml")}


def about(item, requesters, adapters):
    """The name of an adapter or requester without a manifest that this case is about, or None."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if "bots/test_adapters.py" in item.nodeid:
        name = params.get("adapter") or params.get("name")
        return name if name and name not in adapters else None
    if "models/test_requester_catalogue.py" in item.nodeid:
        name = params["row"][0] if "row" in params else params.get("name")
        return name if name and name not in requesters else None
    return None


def first(known, item):
    """The reason of the first line that fits a case, or None."""
    subject = f"{item.config.getoption('--database')} {item.nodeid}"
    return next((reason for pattern, reason in known if pattern.search(subject)), None)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    not_due, red = list(rules("not_due.txt")), list(rules("known_red.txt"))
    requesters, adapters = built("requesters"), built("adapters")
    last = []
    for item in items:
        name = about(item, requesters, adapters)
        if name:
            item.add_marker(pytest.mark.skip(reason=f"not due: {name} is not built"))
            continue
        reason = first(not_due, item)
        if reason:
            item.add_marker(pytest.mark.skip(reason=f"not due: {reason}"))
            continue
        reason = first(red, item)
        if reason:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
            last.append(item)
    # What a failing case leaves behind (messages that wait for a model that is never let go) must not fail others.
    items[:] = [item for item in items if item not in last] + last
