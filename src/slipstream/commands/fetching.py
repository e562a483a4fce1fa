"""Fetching models with progress on the terminal."""

from __future__ import annotations

from rich.console import Console

from slipstream.models.provision import Provisioner
from slipstream.models_cli import RichProgress
from slipstream.settings import Settings


def provisioner(settings: Settings, console: Console | None = None) -> Provisioner:
    """A provisioner that shows what it downloads, with rate and ETA."""
    progress = RichProgress(console or Console(stderr=True))
    return Provisioner(settings.models.cache_dir, offline=settings.models.offline, progress=progress)
