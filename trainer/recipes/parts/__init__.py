"""What recipes share: networks and their pieces, losses and codings that belong to a kind of model, one idea a file."""
