"""TensorBoard event files: scalars, images, texts, and the configuration with final metrics as hparams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event as ProtoEvent
from tensorboard.compat.proto.event_pb2 import SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from trainer.cli.sinks.sink import Sink, configuration
from trainer.rundir import EndEvent, MetricEvent, Record, ResumedEvent, RunPaths, SampleEvent
from trainer.tui.comparison import leaves

DT_STRING = 7


class TensorBoardSink(Sink):
    """Writes event files into `tensorboard/` of the run directory, or into `folder`."""

    def __init__(self, paths: RunPaths, folder: str | None = None) -> None:
        super().__init__(paths)
        self.place = str(paths.root / "tensorboard" if folder is None else Path(folder))
        self._writer = EventFileWriter(self.place)

    def record(self, record: Record) -> None:
        event = record.event
        if isinstance(event, MetricEvent):
            scalars = [Summary.Value(tag=f"{event.split}/{name}", simple_value=value)
                       for name, value in event.values.items()]  # fmt: skip
            self._write(record, event.step, summary=Summary(value=scalars))
        elif isinstance(event, SampleEvent):
            value = self._sample(event)
            if value is not None:
                self._write(record, event.step, summary=Summary(value=[value]))
        elif isinstance(event, ResumedEvent):  # TensorBoard discards its data from this step on
            self._write(record, event.from_step + 1, session_log=SessionLog(status=SessionLog.START))
        elif isinstance(event, EndEvent):
            self._write_hparams(record, event)

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def _write(self, record: Record, step: int, **content: Any) -> None:
        self._writer.add_event(ProtoEvent(wall_time=record.time, step=step, **content))

    def _sample(self, event: SampleEvent) -> Any:
        path = self.paths.inside(event.file)
        if path is None:
            return None
        tag = f"{event.split}/{event.name}"
        content = path.read_bytes()
        if path.suffix != ".png":
            return _text(tag, content.decode("utf-8", "replace"))
        width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
        image = Summary.Image(width=width, height=height, colorspace=3, encoded_image_string=content)
        return Summary.Value(tag=tag, image=image)

    def _write_hparams(self, record: Record, end: EndEvent) -> None:
        """Numbers and text of the configuration, and the final metrics, for the table of the hparams page."""
        started = plugin_data_pb2.SessionStartInfo(start_time_secs=record.time - (end.seconds or 0.0))
        for key, value in leaves(configuration(self.paths)):
            if isinstance(value, bool):
                started.hparams[key].bool_value = value
            elif isinstance(value, int | float):
                started.hparams[key].number_value = value
            elif isinstance(value, str):
                started.hparams[key].string_value = value
        status = api_pb2.Status.Value("STATUS_SUCCESS" if end.status == "done" else "STATUS_FAILURE")
        ended = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=record.time)
        for tag, part in (("_hparams_/session_start_info", {"session_start_info": started}),
                          ("_hparams_/session_end_info", {"session_end_info": ended})):  # fmt: skip
            data = plugin_data_pb2.HParamsPluginData(version=0, **part)
            metadata = SummaryMetadata(
                plugin_data=SummaryMetadata.PluginData(plugin_name="hparams", content=data.SerializeToString())
            )
            self._write(record, 0, summary=Summary(value=[Summary.Value(tag=tag, metadata=metadata)]))
        final = [Summary.Value(tag=name, simple_value=value) for name, value in end.metrics.items()]
        self._write(record, end.step or 0, summary=Summary(value=final))


def _text(tag: str, text: str) -> Any:
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    tensor = TensorProto(dtype=DT_STRING, string_val=[text.encode()], tensor_shape=shape)
    return Summary.Value(tag=tag, metadata=metadata, tensor=tensor)
