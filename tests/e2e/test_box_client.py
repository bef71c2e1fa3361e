"""The client of the published package drives `parley box`, over a WebSocket and over the standard streams."""

import asyncio
import logging
import os
import signal
import socket
import subprocess

import httpx
import pytest
import websockets
from langbot_plugin.box import errors, models
from langbot_plugin.box.client import ActionRPCBoxClient
from langbot_plugin.entities.io.context import ActionContext
from langbot_plugin.runtime.io.controllers.stdio.client import StdioClientController
from langbot_plugin.runtime.io.controllers.ws.client import WebSocketClientController
from langbot_plugin.runtime.io.handler import Handler

from conftest import COMMAND

PARLEY = COMMAND.split()[0]
HEADERS = {"X-LangBot-Box-Control-Token": "t" * 40, "X-LangBot-Instance-Id": "instance"}
ENV = {**os.environ, "LANGBOT_BOX_CONTROL_TOKEN": "t" * 40, "LANGBOT_BOX_TRUSTED_INSTANCE_UUID": "instance"}


def at(generation):
    return ActionContext(instance_uuid="instance", workspace_uuid="w", placement_generation=generation)


async def commands(c):
    r = await c.execute(models.BoxSpec(session_id="s", cmd="echo out; echo err >&2; exit 3"), at(1))
    assert (r.exit_code, r.stdout, r.stderr) == (3, "out", "err")
    r = await c.execute(models.BoxSpec(session_id="s", cmd="head -c 900000 /dev/zero | tr '\\0' x"), at(1))
    assert r.stdout == "x" * 900000
    r = await c.execute(models.BoxSpec(session_id="t", cmd="sleep 30", timeout_sec=1), at(1))
    assert r.status == models.BoxExecutionStatus.TIMED_OUT and r.exit_code is None
    models.BoxSessionInfo.model_validate(await c.create_session(models.BoxSpec(session_id="s"), at(1)))


async def failures(c):
    with pytest.raises(errors.BoxSessionConflictError, match="memory_mb=512"):
        await c.create_session(models.BoxSpec(session_id="s", memory_mb=999), at(1))
    with pytest.raises(errors.BoxSessionNotFoundError):
        await c.get_session("none", at(1))
    with pytest.raises(errors.BoxManagedProcessNotFoundError):
        await c.get_managed_process("s", action_context=at(1))


async def processes(c, base):
    p = await c.start_managed_process("s", models.BoxManagedProcessSpec(command="cat"), at(1))
    assert p.status.value == "running"
    url = c.get_managed_process_websocket_url("s", base, action_context=at(1))
    headers = {**HEADERS, "X-LangBot-Workspace-Id": "w", "X-LangBot-Placement-Generation": "1"}
    async with websockets.connect(url, additional_headers=headers, subprotocols=["mcp"], proxy=None) as ws:
        await ws.send('{"id": 1}')
        assert (await ws.recv()).rstrip("\n") == '{"id": 1}'
    await c.stop_managed_process("s", action_context=at(1))


async def placements(c):
    assert (await c.get_status(at(1)))["active_sessions"] == 1
    assert [s["session_id"] for s in await c.get_sessions(at(1))] == ["s"]
    assert await c.get_sessions(at(2)) == []
    with pytest.raises(errors.BoxError, match="Stale"):
        await c.get_status(at(1))


async def drive(connection, root, base):
    handler = Handler(connection)
    reading = asyncio.create_task(handler.run())
    try:
        c = ActionRPCBoxClient(logging.getLogger("client"))
        c.set_handler(handler)
        await c.init({"backend": "local", "local": {"host_root": root, "default_workspace": "default",
                                                    "allowed_mount_roots": [root]}})
        await c.initialize()
        if not (await c.get_backend_info())["available"]:
            pytest.skip("no sandbox backend on this machine")
        await commands(c)
        await failures(c)
        await processes(c, base)
        await placements(c)
        await c.shutdown()
    finally:
        reading.cancel()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


async def wait_live(base):
    async with httpx.AsyncClient() as http:
        for _ in range(400):
            try:
                if (await http.get(base + "/healthz")).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            await asyncio.sleep(0.02)
    raise AssertionError("the runtime does not answer")


def test_over_websocket(tmp_path):
    port, outcome = free_port(), []
    base = f"http://127.0.0.1:{port}"

    async def failed(_, error):
        outcome.append(error)

    async def connected(connection):
        await drive(connection, str(tmp_path), base)
        outcome.append(None)

    async def run():
        await wait_live(base)
        await WebSocketClientController(base.replace("http", "ws") + "/rpc/ws", failed, HEADERS).run(connected)

    runtime = subprocess.Popen([PARLEY, "box", "--host", "127.0.0.1", "--ws-control-port", str(port)], env=ENV,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        asyncio.run(run())
    finally:
        runtime.send_signal(signal.SIGTERM)
        status = runtime.wait(20)
    if outcome[0]:
        raise outcome[0]
    assert status == 0


def test_over_standard_streams(tmp_path):
    port, ended = free_port(), []

    async def connected(connection):
        await drive(connection, str(tmp_path), f"http://127.0.0.1:{port}")
        ended.append(True)

    asyncio.run(StdioClientController(PARLEY, ["box", "-s", "--ws-control-port", str(port)], ENV).run(connected))
    assert ended
