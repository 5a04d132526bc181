"""Guarantees that hold across processes: no trial starts before its share of the host is free."""

from pytest_infranoise.admission.budget import (
    Admit,
    Budget,
    Request,
    ceiling_bytes,
    check_guarantees,
    default_budget,
    make_budget,
    request_for,
)
from pytest_infranoise.admission.cpus import take_cpus
from pytest_infranoise.admission.folder import default_directory
from pytest_infranoise.admission.ledger import AdmissionLedger, AdmissionStoppedError, Grant
from pytest_infranoise.admission.waiting import Waiting

__all__ = [
    "AdmissionLedger",
    "AdmissionStoppedError",
    "Admit",
    "Budget",
    "Grant",
    "Request",
    "Waiting",
    "ceiling_bytes",
    "check_guarantees",
    "default_budget",
    "default_directory",
    "make_budget",
    "request_for",
    "take_cpus",
]
