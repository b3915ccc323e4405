"""Describes data sets: counts, class balance, sizes, unusable items, images with drawn annotations."""

from trainer.datasets.inspection.checking import Finding, inspect_splits
from trainer.datasets.inspection.contact_sheet import contact_sheet
from trainer.datasets.inspection.inspecting import Inspection, inspect

__all__ = ["Finding", "Inspection", "contact_sheet", "inspect", "inspect_splits"]
