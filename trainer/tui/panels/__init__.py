"""The panels: functions from a frame and a size to lines. The palette decides the colors."""
