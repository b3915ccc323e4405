"""The gallery: a folder a recipe, each complete in itself; `trainer list` shows them, `trainer new` copies one."""
