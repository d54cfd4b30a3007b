"""Turns what detection finds into rows that runs can be started with."""

from llmcore.enrollment.detect import Detection, detect
from llmcore.enrollment.enroll import Enrolled, enroll

__all__ = ["Detection", "Enrolled", "detect", "enroll"]
