"""What may be asked over HTTP, within bounds: a job to be submitted, its priority, and the rules of the service."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from cotune.cluster.service.queued import MOST_PRIORITY
from cotune.cluster.service.snapshot import MOST_BYTES

_MOST_LIMIT = 1_000_000


def _text(value: str) -> str:
    if "\0" in value or (not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value)):
        raise ValueError("text has no NUL and no half of a letter")
    return value


Text = Annotated[str, AfterValidator(_text)]
Name = Annotated[Text, Field(max_length=200)]
Priority = Annotated[int, Field(ge=-MOST_PRIORITY, le=MOST_PRIORITY)]
JobId = Annotated[str, Path(min_length=1, max_length=64)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewJob(_Strict):
    """A job to be submitted: the text of its file, or the path of one, and what is asked beside it."""

    text: Annotated[Text, Field(max_length=MOST_BYTES)] | None = Field(None, description="The job file itself.")
    path: Annotated[Text, Field(max_length=4096)] | None = Field(None, description="Of a job file, or its folder.")
    folder: Annotated[Text, Field(max_length=4096)] | None = Field(None, description="Where paths in `text` begin.")
    target: Annotated[Text, Field(max_length=200)] | None = Field(None, examples=["accuracy=0.97"])
    deadline: Annotated[Text, Field(max_length=100)] | None = Field(None, examples=["2h"])
    name: Name | None = None
    team: Name | None = None
    priority: Priority | None = None
    epochs: Annotated[int, Field(ge=1, le=10**9)] | None = None
    max_epochs: Annotated[int, Field(ge=1, le=10**9)] | None = None
    held: bool = Field(False, description="Keep it from starting until it is released.")

    @property
    def asked(self) -> dict[str, Any]:
        """Return what is laid over the job file, by its keys."""
        return self.model_dump(exclude={"text", "path", "folder", "held"}, exclude_none=True)


class NewLimits(_Strict):
    """What a team may have at a time; null takes a limit away, and what is not named stays."""

    workers: Annotated[int, Field(ge=0, le=_MOST_LIMIT)] | None = None
    jobs: Annotated[int, Field(ge=0, le=_MOST_LIMIT)] | None = None


class NewRules(_Strict):
    """What the service shall go by from now on; what is not named stays."""

    policy: Name | None = Field(None, examples=["las"])
    quotas: Annotated[dict[Name, NewLimits], Field(max_length=1000)] = Field({}, description="By team.")


class NewPriority(_Strict):
    """What may be changed of a job that was submitted."""

    priority: Priority
