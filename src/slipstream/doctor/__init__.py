"""`slipstream doctor`: looks at machine, disks, models, data and network, and says what to do about what is wrong."""

from slipstream.doctor.check import Check
from slipstream.doctor.report import DoctorReport, render, run_doctor

__all__ = ["Check", "DoctorReport", "render", "run_doctor"]
