"""A second workspace, planted in the database with rows in every tenant table, does not exist for the first one.

Every route of the OpenAPI document is asked for its objects: the answer is the one for an id that nobody has, and
afterwards nothing of it has changed. tenancy.md §1.1, §1.10. (Every table from below: tests/unit/store/test_tables.c.)
"""

import hashlib
import json
import re
import sqlite3
import uuid

import httpx
import pytest

from kit.client import ADMIN, Client, sign_in
from kit.models import ModelServer, text
from kit.setup import HttpBot, make_bot, make_model, make_pipeline, make_provider

OURS, THEIRS = "ownmark", "theirmark"
NOWHERE = "http://127.0.0.1:9/v1"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
THEIR_KEY, THEIR_USER = "lbk_" + "t" * 43, "theirs@example.com"
# Values that a column's CHECK asks for, for tables that nothing of the first workspace fills.
FILLERS = {"artifact_digest": "0" * 64, "grant_jti_hash": "0" * 64, "runtime_revision": 1, "embedding_dimension": None, "state": "failed"}
ACCOUNT_ROUTES = ("/api/v1/user/", "/api/v1/workspaces", "/api/v1/workspaces/bootstrap")


def first_workspace(admin, url, peers, model_server):
    """An object of each kind in the workspace of the first account, all named with the word of OURS."""
    provider = make_provider(admin, model_server.base_url, name="ownmark-provider")
    model = make_model(admin, provider, name="ownmark-model")
    make_model(admin, provider, name="ownmark-embedding", kind="embedding")
    rerank = make_provider(admin, NOWHERE, "jina-rerank", name="ownmark-rerank") if any(
        r["name"] == "jina-rerank" for r in admin.get("/api/v1/provider/requesters")["requesters"]) else provider
    admin.call("POST", "/api/v1/provider/models/rerank", json={"name": "ownmark-rerank", "provider_uuid": rerank})
    pipeline = make_pipeline(admin, model, name="ownmark-pipeline")
    bot = HttpBot(admin, url, peers, pipeline)
    admin.put(f"/api/v1/platform/bots/{bot.uuid}", {"name": "ownmark-bot"})
    admin.post(f"/api/v1/platform/bots/{bot.uuid}/admins", {"launcher_type": "person", "launcher_id": "ownmark-admin"})
    page = make_bot(admin, "web_page_bot", {}, pipeline)
    admin.put(f"/api/v1/platform/bots/{page}", {"name": "ownmark-page"})
    admin.post("/api/v1/webhooks", {"name": "ownmark-hook", "url": NOWHERE, "enabled": False})
    admin.post("/api/v1/apikeys", {"name": "ownmark-key"})
    ws = admin.get("/api/v1/workspaces/current")["workspace"]["uuid"]
    admin.post(f"/api/v1/workspaces/{ws}/invitations", {"email": "ownmark-guest@example.com"})
    admin.put("/api/v1/system/wizard/progress", {"step": OURS})
    model_server.script(text("ownmark answer"))
    assert bot.say("ownmark words", session="ownmark-session") == "ownmark answer"
    Client(url).post(f"/api/v1/embed/{page}/feedback", {"message_id": "ownmark-message", "feedback_type": 1})
    image = httpx.post(url + "/api/v1/files/images", headers=admin.auth_headers(), files={"file": ("ownmark.png", b"\x89PNG mine")})
    bot.close()
    return {"workspace": ws, "bot": bot.uuid, "pipeline": pipeline, "provider": provider, "model": model,
            "image": image.json()["data"]["file_key"]}


class Planted:
    """The rows of a second workspace: those of the first under other ids and names, fillers where it has none."""

    def __init__(self, db, mine):
        self.db, self.mine, self.workspace, self.account = db, mine, str(uuid.uuid4()), str(uuid.uuid4())
        self.uuids = {mine: self.workspace}
        self.db.row_factory = sqlite3.Row
        owner = dict(db.execute("SELECT * FROM users").fetchone())
        self.uuids[owner["uuid"]] = self.account
        self.insert("users", {**owner, "id": None, "uuid": self.account, "user": THEIR_USER, "normalized_email": THEIR_USER})
        self.tables = sorted(r["name"] for r in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                             if "workspace_uuid" in self.columns(r["name"]))
        ws = dict(db.execute("SELECT * FROM workspaces").fetchone())
        self.uuids[ws["instance_uuid"].removeprefix("instance_")] = ws["instance_uuid"].removeprefix("instance_")
        self.uuids[mine] = self.workspace  # its uuid is that of the instance
        self.insert("workspaces", {**ws, "uuid": self.workspace, "name": THEIRS, "slug": THEIRS, "source": "cloud_projection",
                                   "created_by_account_uuid": self.account})
        for table in self.tables:
            rows = db.execute(f'SELECT * FROM "{table}" WHERE workspace_uuid = ?', (mine,)).fetchall()
            for row in rows:
                self.insert(table, {c: self.theirs(table, c, v) for c, v in dict(row).items()})
            if not rows:
                self.insert(table, {c: self.filler(c, i) for c, i in self.columns(table).items()})
        db.commit()

    def columns(self, table):
        return {r[1]: r for r in self.db.execute(f'PRAGMA table_info("{table}")')}

    def insert(self, table, row):
        row = {c: v for c, v in row.items() if v is not None}
        names = ", ".join(f'"{c}"' for c in row)
        self.db.execute(f'INSERT INTO "{table}" ({names}) VALUES ({", ".join("?" * len(row))})', list(row.values()))

    def other(self, m):
        return self.uuids.setdefault(m.group(), str(uuid.uuid4()))

    def theirs(self, table, column, value):
        if column == "instance_uuid" or value is None:
            return value
        if column == "key_hash":
            return hashlib.sha256(THEIR_KEY.encode()).hexdigest()
        if column == "token_hash":
            return hashlib.sha256(value.encode()).hexdigest()
        if column in ("id", "seq") and isinstance(value, int):
            return None  # the next number
        return UUID.sub(self.other, value).replace(OURS, THEIRS) if isinstance(value, str) else value

    def filler(self, column, info):
        if column == "workspace_uuid":
            return self.workspace
        if column in FILLERS:
            return FILLERS[column]
        kind = info[2].upper()
        if info[5] and kind == "INTEGER":
            return None
        if "INT" in kind or "FLOAT" in kind or "BOOL" in kind:
            return 1
        if "DATE" in kind or "TIME" in kind:
            return "2026-01-02 03:04:05.000000"
        if "JSON" in kind:
            return "{}"
        return str(uuid.uuid4()) if "uuid" in column or column == "id" else f"{THEIRS}-{column}"[:16]

    def dump(self):
        return {t: sorted(map(repr, (tuple(r) for r in self.db.execute(
            f'SELECT * FROM "{t}" WHERE workspace_uuid = ?', (self.workspace,))))) for t in self.tables}

    def names(self):
        """What their rows can be asked for by: (text ids, integer ids)."""
        texts, numbers = {self.workspace, self.account}, set()
        for t in self.tables:
            for column in ("uuid", "id", "session_id", "message_id", "feedback_id", "name", "file_id", "conversation_id"):
                if column in self.columns(t):
                    for (v,) in self.db.execute(f'SELECT "{column}" FROM "{t}" WHERE workspace_uuid = ?', (self.workspace,)):
                        (numbers if isinstance(v, int) else texts).add(v)
        return sorted(t for t in texts if t), sorted(numbers)


@pytest.fixture(scope="module")
def lab(make_target, peers):
    t = make_target("sqlite")
    model_server = ModelServer(peers)
    try:
        t.start()
        admin = sign_in(t.url)
        ids = first_workspace(admin, t.url, peers, model_server)
        t.stop()
        db = sqlite3.connect(t.data / "langbot.db")
        planted = Planted(db, ids["workspace"])
        t.start()
        ours = Client(t.url, admin.token, workspace=ids["workspace"])
        key = Client(t.url, key=ours.post("/api/v1/apikeys", {"name": "second"})["key"]["key"])
        lab = type("Lab", (), {"ours": ours, "key": key, "planted": planted, "ids": ids, "url": t.url, "target": t})
        lab.before = planted.dump()
        lab.api = ours.call("GET", "/api/v1/openapi.json").json()
        lab.api = lab.api.get("data") or lab.api
        yield lab
        db.close()
    finally:
        model_server.close()
        t.destroy()


def test_every_tenant_table_has_a_foreign_row(lab):
    assert len(lab.planted.tables) >= 30
    assert [t for t, rows in lab.before.items() if not rows] == []


BODIES = {
    "admins": {"launcher_type": "person", "launcher_id": "1"}, "send_message": {
        "target_type": "person", "target_id": "1", "message_chain": [{"type": "Plain", "text": "x"}]},
    "logs": {"from_index": -1, "max_count": 10}, "broadcast": {"message": "x"}, "test": {"extra_args": {}},
    "extensions": {"bound_plugins": []}, "members": {"role": "viewer"}, "invitations": {"email": "x@example.com", "role": "viewer"},
    "poll": {"authorization_id": "x"},
}
# Says nothing of whether there was something to delete.
SILENT = {("DELETE", "/api/v1/platform/bots/{uuid}/admins/{id}")}
FIXED = {"type": "person", "path": "x", "adapter": "http_bot"}


def body_of(path):
    for word, body in BODIES.items():
        if f"/{word}" in path.rsplit("}", 1)[-1] or f"/{word}/" in path:
            return body
    return {"name": "changed"}


def routes(lab):
    for path, item in lab.api["paths"].items():
        for method, op in item.items():
            yield method.upper(), path, op


def plain(r, *ids):
    """Status and body of an answer, without the ids that were asked for and what differs at each request."""
    said = r.text
    for i in ids:
        said = said.replace(json.dumps(str(i))[1:-1], "<id>")
    said = re.sub(r'"request_id":"[^"]*"', "", said)
    return r.status_code, re.sub(r'"(timestamp|generated_at)":"[^"]*"', "", said)


def send(client, method, path):
    kw = {"json": body_of(path)} if method in ("POST", "PUT", "PATCH") else {}
    return client.call(method, path, **kw)


def fillings(lab, path):
    """The path with foreign ids, and with ids that nobody has, pairwise; own ids in front of foreign ones too."""
    names = re.findall(r"\{(\w+)\}", path)
    texts, numbers = lab.planted.names()
    own = lab.ids["workspace"] if "/workspaces/" in path else lab.ids["bot"] if "/bots/" in path else lab.ids["pipeline"]
    for foreign, missing in [(t, str(uuid.uuid4()) if UUID.fullmatch(t) else "nothing-" + uuid.uuid4().hex[:8]) for t in texts] + [
            (str(n), str(10**9 + n)) for n in numbers]:
        for first in (foreign, own) if len(names) > 1 else (foreign,):
            def fill(value, path=path, first=first, foreign=foreign):
                for i, name in enumerate(names):
                    v = FIXED.get(name) or (value if i or first == foreign else own)
                    path = path.replace("{%s}" % name, v, 1)
                return path

            if f"/{foreign}/" in fill(foreign) + "/":
                yield fill(foreign), fill(missing), foreign, missing


def test_a_foreign_object_is_a_missing_one_on_every_route(lab):
    asked, wrong = 0, []
    for method, path, op in routes(lab):
        if "{" not in path or op["x-authentication"] == "none" or "/plugins/" in path:
            continue  # without a login a bot is known by its uuid alone; nothing of a workspace is named in the others
        clients = {"key": (lab.key,), "either": (lab.ours, lab.key)}.get(op["x-authentication"], (lab.ours,))
        for client in clients:
            known = {}  # answers for ids that nobody has, by their form
            for foreign, missing, theirs, nobody in fillings(lab, path):
                form = re.sub(r"nothing-\w+", "name", re.sub(r"/\d{10}", "/number", missing.replace(nobody, UUID.sub("uuid", nobody))))
                if form not in known:
                    known[form] = plain(send(client, method, missing), nobody)
                a = send(client, method, foreign)
                asked += 1
                found = a.status_code == 200 and '"found":false' not in a.text and (method, path) not in SILENT
                if plain(a, theirs) != known[form] or THEIRS in plain(a, theirs)[1] or found:
                    wrong.append(f"{method} {foreign}: {plain(a, theirs)} != {known[form]}")
    assert asked > 1000 and not wrong, f"{len(wrong)} of {asked}:\n" + "\n".join(wrong[:20])


def test_lists_and_filters_show_nothing_foreign(lab):
    """Also where a foreign id is given as a filter."""
    texts, _ = lab.planted.names()
    shown = 0
    for method, path, op in routes(lab):
        if method != "GET" or "{" in path or op["x-authentication"] == "none":
            continue
        client = lab.key if op["x-authentication"] == "key" else lab.ours
        own = client.call("GET", path)
        shown += OURS in own.text
        assert THEIRS not in own.text and lab.planted.workspace not in own.text, path
        for p in op["parameters"]:
            for value in texts:
                r = client.call("GET", path, params={p["name"]: value})
                assert THEIRS not in r.text.replace(value, ""), f"{path}?{p['name']}={value}"
    assert shown > 8, "the lists were empty"


def references(lab):
    new = lab.planted.uuids
    theirs = {k: new[lab.ids[k]] for k in ("pipeline", "provider", "model", "bot")}
    own = lab.ids
    for kind in ("llm", "embedding", "rerank"):
        base = f"/api/v1/provider/models/{kind}"
        yield "POST", base, lambda x: {"name": "n", "provider_uuid": x}, theirs["provider"]
        yield "POST", base, lambda x: {"name": "n", "provider": {"uuid": x}}, theirs["provider"]
        yield "GET", base + "?provider_uuid={}", None, theirs["provider"]
    yield "PUT", f"/api/v1/provider/models/llm/{own['model']}", lambda x: {"provider_uuid": x}, theirs["provider"]
    yield "PUT", f"/api/v1/platform/bots/{own['bot']}", lambda x: {"use_pipeline_uuid": x}, theirs["pipeline"]
    yield "GET", "/api/v1/tools?pipeline_uuid={}", None, theirs["pipeline"]


def test_references_to_foreign_objects_are_refused(lab):
    for method, path, body, theirs in references(lab):
        nobody, answers = str(uuid.uuid4()), []
        for x in (theirs, nobody):
            kw = {"json": body(x)} if body else {}
            answers.append(plain(lab.ours.call(method, path.format(x), **kw), x))
        assert answers[0] == answers[1] and answers[0][0] in (400, 404), f"{method} {path}: {answers}"


def test_a_foreign_file_is_a_missing_one(lab):
    own = lab.ids["image"]
    assert lab.ours.call("GET", "/api/v1/files/image/" + own).content == b"\x89PNG mine"
    foreign = own.replace(lab.ids["workspace"], lab.planted.workspace)
    path = lab.target.data / "storage" / foreign
    path.parent.mkdir(parents=True)
    path.write_bytes(b"theirs")
    missing = foreign[:-10] + "0" * 6 + ".png"
    for client in (lab.ours, lab.key):
        a, b = (client.call("GET", "/api/v1/files/image/" + k) for k in (foreign, missing))
        assert (a.status_code, a.content) == (b.status_code, b.content) and a.status_code == 404


def test_their_selector_selects_nothing(lab):
    """On every route for people: as a workspace that does not exist. Keys bring their own."""
    for method, path, op in routes(lab):
        if op["x-authentication"] not in ("user", "either") or path.startswith(ACCOUNT_ROUTES[0]):
            continue
        url = re.sub(r"\{(\w+)\}", lambda m: FIXED.get(m[1]) or str(uuid.uuid4()), path)
        a, b = (lab.ours.call(method, url, headers={"X-Workspace-Id": ws}) for ws in (lab.planted.workspace, str(uuid.uuid4())))
        assert plain(a) == plain(b) == (404, '{"code":"resource_not_found","msg":"Resource not found"}'), f"{method} {path}"
    context = lab.key.get("/api/v1/system/context", headers={"X-Workspace-Id": lab.planted.workspace})
    assert context["workspace_uuid"] == lab.ids["workspace"]


def test_nothing_of_theirs_has_changed(lab):
    assert lab.planted.dump() == lab.before


def test_they_see_theirs_and_nothing_of_ours(lab):
    """The planted rows are real: their owner and their key work with them, each only in their workspace."""
    them = sign_in(lab.url, THEIR_USER, ADMIN[1], create=False)
    them.workspace = lab.planted.workspace
    their_key = Client(lab.url, key=THEIR_KEY)
    assert their_key.get("/api/v1/system/context")["workspace_uuid"] == lab.planted.workspace
    for client in (them, their_key):
        assert client.get(f"/api/v1/platform/bots/{lab.planted.uuids[lab.ids['bot']]}")["bot"]["name"] == THEIRS + "-bot"
        assert client.fails(404, "GET", f"/api/v1/platform/bots/{lab.ids['bot']}")["code"] == "resource_not_found"
        for path in ("/api/v1/platform/bots", "/api/v1/pipelines", "/api/v1/provider/providers", "/api/v1/provider/models/llm"):
            said = client.call("GET", path).text
            assert THEIRS in said and OURS not in said, path
    assert them.fails(404, "GET", "/api/v1/pipelines", headers={"X-Workspace-Id": lab.ids["workspace"]})["code"] == "resource_not_found"
    assert them.fails(404, "GET", "/api/v1/pipelines", headers={"X-Workspace-Id": ""})["code"] == "resource_not_found", (
        "with several workspaces none is the default")
