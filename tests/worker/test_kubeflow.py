"""The status of a Kubeflow TrainJob, told to a real server over HTTPS that knows its token and nobody else's."""

from __future__ import annotations

import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cli.jobs import TRAINING, cotune, script
from cotune.callbacks.train_job import TrainJobCountdown, remaining
from cotune.worker import kubeflow
from cotune.worker.kubeflow import TrainJobStatus

TOKEN = "of the service account"


class Controller(ThreadingHTTPServer):
    """What Kubeflow's controller does with a status: take it from who has the token."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.taken: list[dict[str, Any]] = []


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        known = self.headers["Authorization"] == f"Bearer {TOKEN}"
        if known:
            assert isinstance(self.server, Controller)
            self.server.taken.append(json.loads(body)["trainerStatus"])
        self.send_response(200 if known else 401)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Controller]:
    """A server with a certificate of its own, and the variables by which a TrainJob's pod knows it."""
    certificate = _certificate(tmp_path)
    server = Controller()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    serving.start()
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    monkeypatch.setenv(kubeflow.URL, f"https://127.0.0.1:{server.server_port}/status")
    monkeypatch.setenv(kubeflow.CERTIFICATE, str(certificate))
    monkeypatch.setenv(kubeflow.TOKEN, str(tmp_path / "token"))
    yield server
    server.shutdown()
    server.server_close()


def _certificate(folder: Path) -> Path:
    """Write a key and its own certificate for this machine."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "controller")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = made.add_extension(here, critical=False).sign(key, hashes.SHA256())
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / "controller.pem"
    file.write_bytes(key.private_bytes(*plain) + signed.public_bytes(serialization.Encoding.PEM))
    return file


def test_seconds_left_are_told_with_both_ends_of_their_interval(controller: Controller) -> None:
    status = TrainJobStatus.of_environment()
    assert status is not None
    status.tell(0.25, (80.0, 100.4, 130.0), {"eval_loss": 2.5})
    status.end({"eval_loss": 2.25})
    first, last = controller.taken
    assert (first["progressPercentage"], first["estimatedRemainingSeconds"]) == (25, 100)
    assert {one["name"]: one["value"] for one in first["metrics"]} == {
        "eval_loss": "2.5",
        "estimated_remaining_seconds_low": "80",
        "estimated_remaining_seconds_high": "130",
    }
    assert datetime.fromisoformat(first["lastUpdatedTime"]).tzinfo is not None
    assert (last["progressPercentage"], last["estimatedRemainingSeconds"]) == (100, 0)
    assert status.refused is None


def test_a_status_is_told_every_few_seconds_and_no_more(controller: Controller) -> None:
    status = TrainJobStatus.of_environment()
    assert status is not None
    for step in range(100):
        status.tell(step / 100, None, {})
    status.end({})
    assert [one["progressPercentage"] for one in controller.taken] == [0, 100]


def test_a_status_that_is_not_taken_ends_no_training(controller: Controller, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of somebody else")
    status = TrainJobStatus.of_environment()
    assert status is not None
    status.end({})
    assert "401" in str(status.refused)
    assert controller.taken == []


@pytest.mark.parametrize("env", [{}, {kubeflow.URL: "https://x", kubeflow.TOKEN: "t", kubeflow.OFF: "true"}])
def test_outside_a_train_job_or_switched_off_nothing_is_told(env: dict[str, str]) -> None:
    assert TrainJobStatus.of_environment(env) is None


def test_a_callback_counts_down_by_itself_where_cotune_is_not_around(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert TrainJobCountdown.here(leads=False) is None
    countdown = TrainJobCountdown.here(leads=True)
    assert countdown is not None
    countdown.status.every = 0.0
    for step in range(1, 9):
        countdown.see(step / 10, {"eval_loss": 3.0 - step / 10} if step % 4 == 0 else None)
        assert countdown.status._posting is not None
        countdown.status._posting.join()
    countdown.end()
    told = {one["name"] for one in controller.taken[-2]["metrics"]}
    assert controller.taken[-2]["progressPercentage"] == 80
    assert told == {"eval_loss", "estimated_remaining_seconds_low", "estimated_remaining_seconds_high"}
    monkeypatch.setenv("COTUNE_REPORT", "rank-0.jsonl")
    assert TrainJobCountdown.here(leads=True) is None, "under cotune its run tells"


def test_an_even_pace_leaves_what_is_left_of_it_and_an_uneven_one_says_less_surely() -> None:
    even = [(step / 100, 10.0 + 2 * step) for step in range(41)]
    assert remaining(even[:2]) is None, "two marks may be warming up"
    left, uneven = remaining(even), remaining([(share, 10 + 4 * (seconds - 10) ** 2 / 80) for share, seconds in even])
    assert left is not None
    assert uneven is not None
    assert left[1] == pytest.approx(120.0)
    assert left[0] < left[1] < left[2]
    assert uneven[2] / uneven[0] > 2 * left[2] / left[0]
    slow_start = remaining([(share, seconds + 30 * (share > 0)) for share, seconds in even])
    assert slow_start is not None
    assert slow_start[1] == pytest.approx(120.0), "what the first step pays for does not come again"


def test_a_run_inside_a_train_job_tells_it_and_its_workers_do_not(controller: Controller, tmp_path: Path) -> None:
    script(tmp_path, setup=f"assert os.environ['{kubeflow.OFF}'] == 'TRUE'")
    words = ("--name", "digits", "--examples", "1440", "--workers", "1", "--batch-size", "48", "--epochs", "3")
    done = cotune(tmp_path, "run", *words, "--json", *TRAINING)
    assert done.code == 0, done.err
    assert controller.taken[0]["progressPercentage"] < 100
    last = {one["name"]: float(one["value"]) for one in controller.taken[-1]["metrics"]}
    assert controller.taken[-1]["progressPercentage"] == 100
    assert last["epoch"] == 3
    assert 0.5 < last["accuracy"] <= 1
