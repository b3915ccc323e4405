"""Instance segmentation of cell nuclei: a U-Net predicts the foreground, a center heatmap and offsets.

Time: 19 minutes.
"""
