"""What a training inside a Kubeflow TrainJob tells of itself: how far it is, and the seconds left with their interval.

    KUBEFLOW_TRAINER_SERVER_URL         where the controller (its gate TrainJobRuntimeStatus) takes `trainerStatus`
    KUBEFLOW_TRAINER_SERVER_CA_CERT     file with the certificate it is known by
    KUBEFLOW_TRAINER_SERVER_TOKEN       file with the token of the pod's service account

The status has one number of seconds left, so the ends of the interval (10th and 90th percentile) stand among its
metrics. It is posted by a thread, at most every few seconds; training goes on whether or not it is heard. Only the
standard library is used, as in all that a training script may import.
"""

from __future__ import annotations

import json
import os
import ssl
import threading
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

URL, CERTIFICATE, TOKEN = (f"KUBEFLOW_TRAINER_SERVER_{name}" for name in ("URL", "CA_CERT", "TOKEN"))
OFF = "DISABLE_KUBEFLOW_INTEGRATION"
_EVERY_SECONDS = 5.0  # as transformers' own callback
_TIMEOUT_SECONDS = 5.0
_ALMOST = 99  # per cent, until the training has ended


Left = tuple[float, float, float]  # seconds: their 10th percentile, median and 90th


@dataclass
class TrainJobStatus:
    """The status of the TrainJob that this process runs in."""

    url: str
    token: Path
    certificate: Path | None = None
    every: float = _EVERY_SECONDS
    refused: str | None = None  # why the last status was not taken
    _last: float = -float("inf")
    _metrics: dict[str, float] = field(default_factory=dict)
    _posting: threading.Thread | None = None

    @classmethod
    def of_environment(cls, env: Mapping[str, str] = os.environ) -> TrainJobStatus | None:
        """Return the status to tell, or None outside a TrainJob and where telling it is switched off."""
        if URL not in env or TOKEN not in env or env.get(OFF, "").upper() == "TRUE":
            return None
        return cls(env[URL], Path(env[TOKEN]), Path(env[CERTIFICATE]) if env.get(CERTIFICATE) else None)

    def tell(self, share: float, left: Left | None, metrics: Mapping[str, float]) -> None:
        """Post how far the training is, unless it was just told or the last post is still on its way."""
        self._metrics |= metrics
        now = time.monotonic()
        busy = self._posting is not None and self._posting.is_alive()
        if busy or now - self._last < self.every:
            return
        self._last = now
        status = self._status(min(int(100 * share), _ALMOST), left)
        self._posting = threading.Thread(target=self._post, args=(status,), daemon=True)
        self._posting.start()

    def end(self, metrics: Mapping[str, float]) -> None:
        """Post that the training has ended, and wait until that is told."""
        self._metrics |= metrics
        if self._posting is not None:
            self._posting.join(_TIMEOUT_SECONDS)
        self._post({**self._status(100, None), "estimatedRemainingSeconds": 0})

    def _status(self, percent: int, left: Left | None) -> dict[str, object]:
        status: dict[str, object] = {"progressPercentage": max(percent, 0)}
        metrics = dict(self._metrics)
        if left is not None:
            low, mid, high = left
            status["estimatedRemainingSeconds"] = max(round(mid), 0)
            metrics |= {"estimated_remaining_seconds_low": low, "estimated_remaining_seconds_high": high}
        status["metrics"] = [{"name": name, "value": f"{value:.6g}"} for name, value in metrics.items()]
        return status | {"lastUpdatedTime": datetime.now(UTC).isoformat()}

    def _post(self, status: dict[str, object]) -> None:
        try:
            request = urllib.request.Request(
                self.url,
                json.dumps({"trainerStatus": status}).encode(),
                {"Authorization": f"Bearer {self.token.read_text().strip()}", "Content-Type": "application/json"},
            )
            context = ssl.create_default_context(cafile=self.certificate) if self.certificate else None
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS, context=context):
                self.refused = None
        except (OSError, ValueError) as error:  # no training ends because nobody hears how it goes
            self.refused = str(error)
