"""Reads figures off a server's `/metrics`, as a Prometheus server would."""

from __future__ import annotations

from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True, slots=True)
class Scrape:
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float]

    def value(self, name: str, **labels: str) -> float:
        """The sum over all label sets that hold the labels given; 0 when there is none."""
        wanted = set(labels.items())
        return sum(v for (sample, having), v in self.samples.items() if sample == name and wanted <= set(having))

    def quantile_above(self, before: Scrape, name: str, quantile: float) -> float:
        """Upper bound of the bucket that holds the quantile of what a histogram saw since `before`."""
        bounds = sorted(
            (float(dict(labels)["le"]), value - before.samples.get((sample, labels), 0.0))
            for (sample, labels), value in self.samples.items()
            if sample == f"{name}_bucket"
        )
        total = bounds[-1][1] if bounds else 0.0
        return next((bound for bound, seen in bounds if seen >= quantile * total), float("inf")) if total else 0.0


async def scrape(http: httpx.AsyncClient) -> Scrape:
    text = (await http.get("/metrics")).text
    return Scrape(
        {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
    )
