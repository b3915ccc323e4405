"""`data.reader:` the format of the data set, one section per format. To add one, write a file in `datasets/readers`, a
section here whose `code` names it, and a row in table.py.
"""

from trainer.configs.readers.reading import OwnReader, Reading
from trainer.configs.readers.table import READERS, ReaderConfig

__all__ = ["READERS", "OwnReader", "ReaderConfig", "Reading"]
