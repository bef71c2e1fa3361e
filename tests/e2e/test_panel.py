"""The panel in a real browser, against the real program: first start, login, wizard, model, bot, streamed chat, and the rest
of web/e2e/walk.mjs. E2E_SHOTS=DIR keeps a picture of every page, light and dark, wide and narrow."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kit.models import text

WEB = Path(__file__).resolve().parents[2] / "web"
REPLY = "Hello from the **walk model**. This answer comes in pieces:\n\n- one\n- two\n- three\n\nand ends here."


@pytest.mark.timeout(400)
def test_the_whole_walk(fresh, model_server):
    assert shutil.which("node"), "Node.js is missing: make test installs it"
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert browser, "chromium is missing: make test installs it"
    fresh.start()
    model_server.script(text(REPLY, pieces=[REPLY[i:i + 5] for i in range(0, len(REPLY), 5)], delay=0.06))
    shots = os.environ.get("E2E_SHOTS")
    done = subprocess.run(["node", "e2e/walk.mjs", "--url", fresh.url, "--model-url", model_server.url,
                           *(["--shots", os.path.abspath(shots)] if shots else [])],
                          cwd=WEB, env={**os.environ, "CHROMIUM": browser}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=380, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}\n--- log of the program\n{fresh.log_tail()}"
