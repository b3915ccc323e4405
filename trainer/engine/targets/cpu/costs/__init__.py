"""What each template's tiles and tasks cost by the model, and the parameters worth trying, best first: a file each."""
