"""Accounts, tokens and keys where the conformance suite does not look. http-api.md §1.4–1.8, §3, §5, §6; tenancy.md §3, §6."""

import base64
import sqlite3
import uuid

import jwt
import pytest

from kit.client import ADMIN, Client, sign_in, unique
from kit.people import PASSWORD, Member, invite, workspace_of

AUTH = "/api/v1/user/auth"


@pytest.fixture
def anonymous(server):
    c = Client(server.url)
    yield c
    c.close()


def test_password_routes_look_at_no_selector(admin):
    """Account routes: with the token that the change gave, whatever workspace is named."""
    m = Member(admin, "viewer")
    elsewhere = {"X-Workspace-Id": str(uuid.uuid4())}
    m.token = m.post("/api/v1/user/change-password", {"current_password": PASSWORD, "new_password": "Other-1-pass"},
                     headers=elsewhere)["token"]
    m.token = m.post("/api/v1/user/set-password", {"current_password": "Other-1-pass", "new_password": PASSWORD},
                     headers=elsewhere)["token"]
    r = m.call("GET", "/api/v1/user/space/bind-authorize-url", headers=elsewhere)
    assert r.status_code == 200 and r.json() == {"code": 1, "msg": "Missing redirect_uri parameter"}


def test_guessing_ends_whatever_the_spelling(fresh):
    """Failures count for the address in its canonical form; other accounts go on."""
    fresh.start()
    owner = sign_in(fresh.url)
    m = Member(owner, "viewer")
    spellings = [m.email, m.email.upper(), f" {m.email}\t"]
    answers = [owner.call("POST", AUTH, json={"user": spellings[i % 3], "password": "wrong"}, headers={}) for i in range(50)]
    assert {(r.status_code, r.json()["code"]) for r in answers} == {(200, 1)}
    for user in spellings:
        answer = owner.fails(429, "POST", AUTH, json={"user": user, "password": PASSWORD})
        assert answer == {"code": -1, "msg": "Too many attempts, try again later"}
    assert sign_in(fresh.url, create=False).token
    assert m.get("/api/v1/user/info")["user"] == m.email, "who is signed in stays so"


@pytest.mark.parametrize("user", [ADMIN[0] + "\0", ADMIN[0] + "\0x", "\0" + ADMIN[0]])
def test_an_address_does_not_end_at_a_nul(anonymous, user):
    r = anonymous.call("POST", AUTH, json={"user": user, "password": ADMIN[1]})
    assert r.status_code == 200 and r.json()["code"] == 1 and "token" not in r.text


def test_elsewhere_a_nul_is_refused(admin):
    answer = admin.fails(400, "POST", "/api/v1/apikeys", json={"name": "a\0b"})
    assert answer["code"] == -1 and "line" not in answer["msg"]


@pytest.mark.parametrize("method, path", [
    ("POST", "/api/v1/pipelines"), ("POST", "/api/v1/apikeys"), ("POST", "/api/v1/user/change-password"),
    ("POST", AUTH), ("POST", "/api/v1/user/init"), ("POST", "/api/v1/invitations/accept"),
    ("POST", "/api/v1/provider/models/llm"), ("PUT", "/api/v1/system/wizard/progress")])
@pytest.mark.parametrize("body", [b'{"a": "x"', b"a=x", b"", b'{"a": "\xe4"}', b'{"a":1}{"a":2}', b"[" * 100000])
def test_no_json_is_a_bad_request(admin, method, path, body):
    answer = admin.fails(400, method, path, content=body, headers={"Content-Type": "application/json"})
    assert answer["code"] == -1


def test_what_a_path_can_be_asked_is_told(admin):
    r = admin.call("PUT", "/api/v1/pipelines")
    assert r.status_code == 405 and r.headers["allow"] == "GET, POST, OPTIONS, HEAD"


def test_a_token_signed_with_nothing_is_refused_where_the_secret_is_missing(server, anonymous, admin):
    claims = jwt.decode(admin.token, options={"verify_signature": False})
    head, body = (base64.urlsafe_b64encode(x).rstrip(b"=").decode() for x in (b'{"alg":"HS256"}', b"{}"))
    for token in (f"{head}.{body}.", jwt.encode(claims, "", algorithm="HS256")):
        assert anonymous.call("GET", "/api/v1/user/info", headers={"Authorization": f"Bearer {token}"}).status_code == 401


def test_the_scheme_is_written_exactly_so(anonymous, admin):
    for scheme in ("bearer", "BEARER", "Token"):
        r = anonymous.call("GET", "/api/v1/user/info", headers={"Authorization": f"{scheme} {admin.token}"})
        assert r.status_code == 401 and r.json()["code"] == -1


def test_a_key_ends_at_once(admin, server):
    """Also one that was used a moment ago; and what it may is what its row says."""
    for _ in range(5):
        key = admin.post("/api/v1/apikeys", {"name": unique("key"), "scopes": ["resource.view"]})["key"]
        c = Client(server.url, key=key["key"])
        for _ in range(3):
            c.get("/api/v1/pipelines")
        assert c.fails(403, "POST", "/api/v1/pipelines", json={"name": "x"})["code"] == "permission_denied"
        admin.delete(f"/api/v1/apikeys/{key['id']}")
        assert c.fails(401, "GET", "/api/v1/pipelines")["code"] == "invalid_authentication"
        c.close()


def test_a_membership_counts_at_once(admin):
    m = Member(admin, "admin")
    base = f"/api/v1/workspaces/{workspace_of(admin)}/members/{m.uuid}"
    for role, status in (("viewer", 403), ("admin", 200), ("operator", 403), ("admin", 200)):
        admin.ok("PATCH", base, json={"role": role})
        assert m.call("GET", "/api/v1/apikeys").status_code == status
    admin.delete(base)
    assert m.call("GET", "/api/v1/apikeys").status_code == 404


def test_keys_and_invitations_are_kept_as_hashes_only(fresh):
    fresh.start()
    owner = sign_in(fresh.url)
    key = owner.post("/api/v1/apikeys", {"name": "k"})["key"]["key"]
    token = invite(owner)["token"]
    fresh.stop()
    db = sqlite3.connect(fresh.data / "langbot.db")
    dump = "\n".join(db.iterdump())
    db.close()
    for secret in (key, token, ADMIN[1], owner.token):
        assert secret not in dump


def test_states_of_the_login_page_are_used_once_and_for_one_purpose(admin, anonymous):
    back = "https://bots.example/auth/space/callback"
    link = anonymous.get("/api/v1/user/space/authorize-url", params={"redirect_uri": back})["authorize_url"]
    login = link.split("state=")[1]
    link = admin.get("/api/v1/user/space/bind-authorize-url", params={"redirect_uri": back + "?mode=bind"})["authorize_url"]
    bind = link.split("state=")[1]
    refused = anonymous.fails(401, "POST", "/api/v1/user/bind-space", json={"code": "x", "state": login})
    assert refused == {"code": -1, "msg": "Invalid or expired state"}
    assert anonymous.fails(400, "POST", "/api/v1/user/bind-space", json={"code": "x", "state": bind})["code"] == -1
    assert anonymous.fails(401, "POST", "/api/v1/user/bind-space", json={"code": "x", "state": bind})["code"] == -1
    answer = anonymous.call("POST", "/api/v1/user/space/callback", json={"code": "x", "state": bind})
    assert answer.status_code == 200 and answer.json()["code"] == 1


@pytest.mark.parametrize("body, code", [
    ({}, 1), ({"content": " "}, 1), ({"content": "x" * 5001}, 2), ({"content": "x", "attachments": {}}, 3),
    ({"content": "x", "attachments": [{}] * 4}, 4), ({"content": "x", "attachments": [{"data_url": "data:image/png;base64,!"}]}, 5),
    ({"content": "x", "attachments": [{"data_url": "data:image/png;base64," + "A" * 1_500_000}]}, 5),
    ({"content": "x", "attachments": [5, {"data_url": "https://x"}]}, 7), ({"content": "ä" * 5000}, 7)])
def test_feedback_is_judged_before_it_is_sent(admin, body, code):
    r = admin.call("POST", "/api/v1/survey/feedback", json=body)
    assert r.status_code == 200 and r.json()["code"] == code
