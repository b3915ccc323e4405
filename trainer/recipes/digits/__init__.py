"""Handwritten digits: a small convolutional network. See README.md."""
