"""tritonclient's calls beside inference: health, metadata, statistics, repository, settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tritonclient.utils import InferenceServerException

from support.http.inference_form import DIRECTML, X
from support.v2.tritonclients import OverHttp
from tensor_round_service.oip.models import MODELS

pytestmark = pytest.mark.not_behind("unix", reason="tritonclient calls TCP ports alone")
Act = Callable[[Any], Any]
Ask = Callable[[Act], Any]


def test_health(ask: Ask) -> None:
    assert ask(lambda c: c.is_server_live())
    assert ask(lambda c: c.is_server_ready())
    assert ask(lambda c: c.is_model_ready("onnx_round", "11"))
    assert not ask(lambda c: c.is_model_ready("torch_round"))
    assert not ask(lambda c: c.is_model_ready("onnx_round", "12"))


def test_descriptions(ask: Ask, kind: OverHttp) -> None:
    def told(act: Act) -> Any:
        return kind.plain(ask(act))

    assert "statistics" in told(lambda c: c.get_server_metadata())["extensions"]
    assert told(lambda c: c.get_model_metadata("onnx_round"))["versions"] == ["11", "22"]
    assert told(lambda c: c.get_model_metadata(DIRECTML, "2_1"))["inputs"] == [
        {"name": "InputTensor", "datatype": "FP32", "shape": [-1, -1, -1, -1]}
    ]
    assert told(lambda c: c.get_model_config("openvino_round", "5"))["max_batch_size"] == 0
    index = told(lambda c: c.get_model_repository_index())
    assert {"name": "round", "version": "1", "state": "READY"} in index
    statistics = told(lambda c: c.get_inference_statistics())["model_stats"]
    assert len(index) == len(statistics) == len(MODELS)
    assert told(lambda c: c.get_log_settings())["log_verbose_level"] == 0
    for model in (None, "round"):
        settings = told(lambda c, m=model: c.get_trace_settings(m))
        assert settings["trace_level"] == ["OFF"]


def test_statistics_count_each_version(ask: Ask, kind: OverHttp) -> None:
    def counted(version: str) -> Any:
        told = kind.plain(ask(lambda c: c.get_inference_statistics("onnx_round", version)))
        (entry,) = told["model_stats"]
        return entry["inference_count"]

    before = counted("11"), counted("22")
    ask(lambda c: c.infer("onnx_round", [kind.given(X)], "11"))
    assert (counted("11"), counted("22")) == (before[0] + 1, before[1])


def test_a_model_can_be_loaded(ask: Ask) -> None:
    ask(lambda c: c.load_model("round"))
    ask(lambda c: c.load_model("round", config='{"parameters": {}}'))


REFUSED: dict[str, tuple[Act, int, str]] = {
    "load": (lambda c: c.load_model("torch_round"), 404, "no model"),
    "unload": (lambda c: c.unload_model("round"), 400, "cannot be unloaded"),
    "logging": (lambda c: c.update_log_settings({"log_info": True}), 400, "fixed"),
    "trace": (lambda c: c.update_trace_settings("round", {"a": "1"}), 400, "no tracing"),
    "metadata": (lambda c: c.get_model_metadata("none"), 404, 'no model "none"'),
    "memory": (lambda c: c.register_system_shared_memory("r", "/k", 1), 501, "PREFIX"),
    "cuda": (lambda c: c.register_cuda_shared_memory("r", b"handle==", 0, 1), 501, "CUDA"),
}


@pytest.mark.parametrize(("act", "status", "says"), REFUSED.values(), ids=REFUSED)
def test_errors(ask: Ask, kind: OverHttp, act: Act, status: int, says: str) -> None:
    with pytest.raises(InferenceServerException, match=says) as caught:
        ask(act)
    assert kind.status(caught.value) == status
