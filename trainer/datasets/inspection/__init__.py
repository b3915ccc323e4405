"""What is in a data set: counts, balance of classes, sizes, what can't be used, pictures with their annotations."""

from trainer.datasets.inspection.checking import Finding, inspect_splits
from trainer.datasets.inspection.contact_sheet import contact_sheet
from trainer.datasets.inspection.inspecting import Inspection, inspect

__all__ = ["Finding", "Inspection", "contact_sheet", "inspect", "inspect_splits"]
