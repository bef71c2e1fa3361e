"""End-to-end tests: the real program, started by the tests, with peers of the conformance kit.

Fixtures:

* `server`  a running instance that the tests of a session share; make things of your own, don't count those of others
* `fresh`   an instance of the test's own, not started, empty data directory: `fresh.start(SOME__SETTING="…")`
* `admin`   a client of the first account of `server`
* `peers`, `model_server`  the thread of the fake peers; a fake OpenAI-compatible model server of the test's own

E2E_DATABASE=postgresql gives each instance a database of a private PostgreSQL. PARLEY names another command to start.
"""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "conformance"))

from kit import client as kit_client  # noqa: E402
from kit.models import ModelServer  # noqa: E402
from kit.peers import PeerHost  # noqa: E402
from kit.target import Parley  # noqa: E402

COMMAND = os.environ.get("PARLEY") or f"{ROOT / os.environ.get('BUILD', 'build') / 'parley'} serve"


@pytest.fixture(scope="session")
def cluster():
    """A private PostgreSQL, started when a test first asks for it."""
    from kit import postgres

    found, why = postgres.find()
    assert found, why
    c = postgres.Cluster(found)
    yield c
    c.close()


@pytest.fixture(scope="session")
def make_target(request):
    """Makes instances that are not started; all are destroyed at the end of the session at the latest."""
    made = []

    def make(database=None):
        t = Parley(COMMAND)
        made.append(t)
        if (database or os.environ.get("E2E_DATABASE", "sqlite")) == "postgresql":
            from kit import postgres

            t.env.update({k: str(v) for k, v in postgres.Database(request.getfixturevalue("cluster")).env().items()})
        return t

    yield make
    for t in made:
        t.destroy()


@pytest.fixture(scope="session")
def server(make_target):
    t = make_target()
    t.start()
    yield t
    t.destroy()


@pytest.fixture
def fresh(make_target):
    t = make_target()
    yield t
    t.destroy()


@pytest.fixture(scope="session")
def admin(server):
    c = kit_client.sign_in(server.url)
    yield c
    c.close()


@pytest.fixture(scope="session")
def peers():
    host = PeerHost()
    yield host
    host.close()


@pytest.fixture
def model_server(peers):
    m = ModelServer(peers)
    yield m
    m.close()
