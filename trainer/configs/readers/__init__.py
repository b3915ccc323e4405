"""`data.reader:` where the items come from, one section a format. A further one is a file in `datasets/readers`, its
section here, which says in `code` where that is, and its row in table.py; no other place knows of it.
"""

from trainer.configs.readers.reading import OwnReader, Reading
from trainer.configs.readers.table import READERS, ReaderConfig

__all__ = ["READERS", "OwnReader", "ReaderConfig", "Reading"]
