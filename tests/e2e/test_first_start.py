"""An empty data directory, the first account, signing in, a restart on the same data."""

import httpx

from kit.client import ADMIN, Client, sign_in


def test_an_empty_directory_becomes_an_instance_with_an_account(fresh):
    fresh.start()
    r = httpx.get(fresh.url + "/healthz")
    assert r.status_code == 200
    page = httpx.get(fresh.url + "/", follow_redirects=True)
    assert page.status_code == 200 and "text/html" in page.headers["content-type"]

    anonymous = Client(fresh.url)
    assert anonymous.get("/api/v1/user/init")["initialized"] is False
    anonymous.post("/api/v1/user/init", {"user": ADMIN[0], "password": ADMIN[1]})
    assert anonymous.get("/api/v1/user/init")["initialized"] is True
    refused = anonymous.call("POST", "/api/v1/user/auth", json={"user": ADMIN[0], "password": "wrong-Pass-1"})
    assert refused.json()["code"] != 0 and "token" not in refused.text

    admin = sign_in(fresh.url, create=False)
    assert admin.token
    assert admin.get("/api/v1/platform/bots")["bots"] == []
    assert anonymous.call("GET", "/api/v1/platform/bots").status_code == 401


def test_a_stop_is_clean_and_a_restart_keeps_the_account(fresh):
    fresh.start()
    sign_in(fresh.url)
    status, seconds = fresh.stop()
    assert status == 0, fresh.log_tail()
    assert seconds < 5
    fresh.start()
    assert sign_in(fresh.url, create=False).token
