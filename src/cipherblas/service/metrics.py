"""The figures of a service, as Prometheus reads them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class Metrics:
    """Counters of a service, with a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        to = self._registry
        self.jobs = Counter("cipherblas_jobs", "Jobs that are over.", ["state"], registry=to)
        self.seconds = Histogram("cipherblas_job_seconds", "Seconds of jobs.", ["stage"], registry=to)
        self.ratio = Histogram("cipherblas_predicted_ratio", "Measured over predicted seconds.", registry=to)
        self.requests = Counter("cipherblas_http_requests", "Requests.", ["method", "status"], registry=to)
        self.uploaded = Counter("cipherblas_upload_bytes", "Bytes of uploads.", registry=to)
        self._gauges = {
            name: Gauge(f"cipherblas_{name}", text, registry=to)
            for name, text in (
                ("queue_jobs", "Jobs that wait."),
                ("reserved_bytes", "Memory of the jobs that run."),
                ("memory_limit_bytes", "Memory that all jobs may take."),
                ("store_bytes", "Bytes of all objects."),
                ("worker_processes", "Processes of workers."),
                ("worker_restarts", "Workers that ended in the middle of a task."),
            )
        }

    def text(self, values: dict[str, float]) -> bytes:
        """All figures; `values` are those of the gauges."""
        for name, value in values.items():
            self._gauges[name].set(value)
        return generate_latest(self._registry)
