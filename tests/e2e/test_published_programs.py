"""Programs that others published talk to ours: a model server behind it, client libraries in front of it.

The model is `fakellm`, an OpenAI-compatible server from the package index, whole and streamed; the users are httpx (HTTP bot,
synchronous) and websockets (dashboard chat, streamed).
"""

import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import yaml

from kit.client import sign_in
from kit.setup import HttpBot, make_model, make_pipeline, make_provider
from kit.talk import open_chat
from kit.target import free_port

WORDS = "Forty-two, says the published server, and not a word more than that."
RULES = {
    "version": 1,
    "defaults": {"fallback": "deterministic_echo"},
    "rules": [
        {"name": "answer", "when": {"messages_contain": "the question"}, "respond": {"content": WORDS}},
        {"name": "limited", "when": {"messages_contain": "too much"}, "respond": {"status": 429, "error": "slow down"}},
    ],
}


@pytest.fixture(scope="module")
def published_model(tmp_path_factory):
    """The base URL of a running fakellm."""
    home, port = tmp_path_factory.mktemp("fakellm"), free_port()
    (home / "rules.yaml").write_text(yaml.safe_dump(RULES), "utf-8")
    program = Path(sys.executable).with_name("fakellm")
    with open(home / "log", "ab") as log:
        process = subprocess.Popen([program, "serve", "--port", str(port), "--config", home / "rules.yaml"], cwd=home, stdout=log,
                                   stderr=log, stdin=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{port}/v1/models", timeout=1)
                break
            except httpx.HTTPError:
                assert process.poll() is None and time.monotonic() < end, (home / "log").read_text("utf-8")
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def chat(admin, published_model):
    talk = open_chat(admin, published_model, name="gpt-4o")
    yield talk
    talk.close()


def test_a_streamed_answer_over_a_websocket(chat):
    assert chat.say("the question", stream=True) == WORDS
    texts = [s["content"] for s in chat.snapshots]
    assert all(WORDS.startswith(t) for t in texts), texts


def test_a_whole_answer_over_a_websocket(chat):
    assert chat.say("the question", stream=False) == WORDS


def test_a_refusal_of_the_model_leaves_a_working_session(chat):
    refused = chat.say("that is too much")
    assert refused and refused != WORDS
    assert chat.say("the question") == WORDS


def test_an_answer_over_http(server, admin, peers, published_model):
    model = make_model(admin, make_provider(admin, published_model), name="gpt-4o")
    bot = HttpBot(admin, server.url, peers, make_pipeline(admin, model))
    try:
        assert bot.say("the question") == WORDS
    finally:
        bot.close()


def test_an_answer_survives_a_restart_in_the_history(fresh, peers, published_model):
    """The conversation is kept: after a kill the session goes on where it was."""
    fresh.start()
    admin = sign_in(fresh.url)
    model = make_model(admin, make_provider(admin, published_model), name="gpt-4o")
    bot = HttpBot(admin, fresh.url, peers, make_pipeline(admin, model))
    try:
        assert bot.say("the question", session="kept") == WORDS
        fresh.kill()
        fresh.start()
        # The rule looks at all messages: only a history that holds the first one brings this answer again.
        assert bot.say("once more, please", session="kept") == WORDS
    finally:
        bot.close()
