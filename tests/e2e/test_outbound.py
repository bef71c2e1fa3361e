"""Where URLs of workspaces may lead: private addresses are refused when the operator says so, and networks are excepted."""

import pytest

from kit import client as kit_client
from kit.setup import make_model, make_provider

TEST = "/api/v1/provider/models/llm"


@pytest.mark.parametrize("allowed, reached", [("", False), ("10.0.0.0/8", False), ("10.0.0.0/8, 127.0.0.0/8", True)])
def test_private_addresses_as_the_operator_says(fresh, model_server, allowed, reached):
    fresh.start(SYSTEM__OUTBOUND__REFUSE_PRIVATE_ADDRESSES="true", SYSTEM__OUTBOUND__ALLOWED_PRIVATE_NETWORKS=allowed)
    admin = kit_client.sign_in(fresh.url)
    model = make_model(admin, make_provider(admin, model_server.base_url))
    answer = admin.call("POST", f"{TEST}/{model}/test", json={})
    assert (answer.json()["code"] == 0) == reached, answer.text
    assert bool(model_server.requests) == reached
    if not reached:
        assert "private address" in answer.text
    admin.close()


def test_a_network_that_is_none_stops_the_start(fresh):
    with pytest.raises(Exception):
        fresh.start(SYSTEM__OUTBOUND__ALLOWED_PRIVATE_NETWORKS="10.0.0.0/99")
    assert "system.outbound.allowed_private_networks" in fresh.log_text()
