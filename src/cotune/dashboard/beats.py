"""What changes in a store, as server-sent events; it is looked at only while somebody watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from fastapi.sse import ServerSentEvent
from pydantic_core import to_json

from cotune.dashboard.answers import StoreAnswers
from cotune.errors import CotuneError
from cotune.store import views

BEAT_SECONDS = 1.0


def as_json(document: dict[str, Any]) -> bytes:
    """Return JSON in which a number that is none is null."""
    return to_json(document, inf_nan_mode="null")


class Beats:
    """Looks at the store once a second while somebody watches, and tells what changed."""

    def __init__(self, answers: StoreAnswers) -> None:
        self.answers = answers
        self.number = 0
        self.event = ""
        self.closed = False
        self._watchers: set[asyncio.Event] = set()
        self._wanted = asyncio.Event()

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            text = await asyncio.to_thread(self._look)
            if text != self.event:
                self.number, self.event = self.number + 1, text
                self._wake()
            await asyncio.sleep(BEAT_SECONDS)

    def close(self) -> None:
        """Let everybody go who watches, so that the server can end."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        for watcher in self._watchers:
            watcher.set()

    def _look(self) -> str:
        try:
            beat = [*views.pulse(self.answers.store), self.answers.learner.revision]
            told: dict[str, Any] = {"pulse": beat, "live": self.answers.live()}
        except CotuneError as error:
            told = {"error": str(error)}
        return as_json(told).decode()

    async def stream(self) -> AsyncGenerator[ServerSentEvent]:
        """Yield the state at once, then every change."""
        seen, woken = 0, asyncio.Event()
        self._watchers.add(woken)
        self._wanted.set()
        try:
            while not self.closed:
                if self.number == seen:
                    await woken.wait()
                    woken.clear()
                    continue
                seen = self.number
                yield ServerSentEvent(event="beat", raw_data=self.event)
        finally:
            self._watchers.discard(woken)
            if not self._watchers:
                self._wanted.clear()
