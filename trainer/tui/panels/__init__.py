"""The panels: functions that turn a frame and a size into lines. The palette defines the colors."""
