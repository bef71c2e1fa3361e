"""Reads whose answers the server keeps as text: never older than the last change, never more than the caller may see."""

import httpx
import pytest

from kit.client import unique
from kit.people import PASSWORD, Member, workspace_of
from kit.setup import make_bot

SECRET = "seen-by-managers-only"


@pytest.fixture
def bot(admin):
    uuid = make_bot(admin, "http_bot", {"inbound_secret": SECRET, "callback_url": "http://127.0.0.1:9/none"})
    yield uuid
    admin.call("DELETE", f"/api/v1/platform/bots/{uuid}")


def read(client, bot, times=3):
    """Several times, so that a kept answer would be among them; all must be equal."""
    answers = [client.get(f"/api/v1/platform/bots/{bot}")["bot"] for _ in range(times)]
    assert all(a == answers[0] for a in answers)
    return answers[0]


def test_a_change_is_seen_at_once(admin, bot):
    for i in range(20):
        name = f"{unique('bot')}-{i}"
        admin.put(f"/api/v1/platform/bots/{bot}", {"name": name})
        assert read(admin, bot)["name"] == name
    admin.call("DELETE", f"/api/v1/platform/bots/{bot}")
    assert admin.call("GET", f"/api/v1/platform/bots/{bot}").status_code == 404


def test_each_sees_what_its_role_may(admin, bot):
    viewer = Member(admin, "viewer")
    for _ in range(3):
        assert read(admin, bot)["adapter_config"]["inbound_secret"] == SECRET
        assert "adapter_config" not in read(viewer, bot)


def test_a_changed_role_counts_at_once(admin, bot):
    m = Member(admin, "viewer")
    path = f"/api/v1/workspaces/{workspace_of(admin)}/members/{m.uuid}"
    for role in ("developer", "viewer", "developer", "viewer"):
        admin.ok("PATCH", path, json={"role": role})
        assert ("adapter_config" in read(m, bot)) == (role == "developer")
    admin.call("DELETE", path)
    assert m.call("GET", f"/api/v1/platform/bots/{bot}").status_code in (401, 403, 404)


def test_a_changed_password_ends_the_token_at_once(admin, bot):
    m = Member(admin, "viewer")
    read(m, bot)
    old = m.token
    m.token = m.post("/api/v1/user/change-password", {"current_password": PASSWORD, "new_password": "Other-1-pass"})["token"]
    ended = httpx.get(f"{m.url}/api/v1/platform/bots/{bot}", headers={"Authorization": f"Bearer {old}"})
    assert ended.status_code == 401
    read(m, bot)


def test_an_answer_says_whether_the_bot_runs(admin, bot):
    for enable in (False, True, False):
        admin.put(f"/api/v1/platform/bots/{bot}", {"enable": enable})
        got = read(admin, bot)
        assert got["enable"] == enable and got["adapter_runtime_values"]["webhook_url"] == f"/bots/{bot}"
