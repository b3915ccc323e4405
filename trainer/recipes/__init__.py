"""The gallery: one self-contained folder per recipe. `trainer list` shows them, `trainer new` copies one."""
