"""tritonclient's calls beside inference: health, metadata, statistics, repository, settings."""

from __future__ import annotations

from typing import Any

import pytest
from tritonclient.utils import InferenceServerException

from support.http.inference_form import X
from support.v2.tritonclients import Tritonclient, given
from tensor_round_service.oip.models import MODELS

pytestmark = pytest.mark.not_behind("unix", reason="tritonclient calls TCP ports alone")
DIRECTML = "directml_element_wise_round"


def test_health_and_metadata(kind: Tritonclient, client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("round")
    assert client.is_model_ready("onnx_round", "11")
    assert not client.is_model_ready("torch_round")
    assert not client.is_model_ready("onnx_round", "12")
    assert kind.plain(client.get_server_metadata())["name"] == "tensor-round"
    assert kind.plain(client.get_model_metadata("onnx_round"))["versions"] == ["11", "22"]
    assert kind.plain(client.get_model_metadata(DIRECTML, "2_1"))["inputs"] == [
        {"name": "InputTensor", "datatype": "FP32", "shape": [-1, -1, -1, -1]}
    ]
    assert kind.plain(client.get_model_config("openvino_round", "5"))["max_batch_size"] == 0


def test_statistics(kind: Tritonclient, client: Any) -> None:
    def counted(version: str) -> int:
        (entry,) = kind.plain(client.get_inference_statistics("onnx_round", version))["model_stats"]
        count = entry["inference_stats"]["success"]["count"]
        assert entry["inference_count"] == count
        assert isinstance(count, int)
        return count

    before = counted("11"), counted("22")
    client.infer("onnx_round", [given(kind, X)], "11")
    assert (counted("11"), counted("22")) == (before[0] + 1, before[1])
    assert len(kind.plain(client.get_inference_statistics())["model_stats"]) == len(MODELS)
    assert len(kind.plain(client.get_inference_statistics("onnx_round"))["model_stats"]) == 2


def test_repository(kind: Tritonclient, client: Any) -> None:
    index = kind.plain(client.get_model_repository_index())
    assert {"name": "round", "version": "1", "state": "READY"} in index
    assert {entry["name"] for entry in index} == {model.name for model in MODELS}
    client.load_model("round")
    client.load_model("round", config='{"parameters": {}}')
    with pytest.raises(InferenceServerException, match="cannot be unloaded"):
        client.unload_model("round")
    with pytest.raises(InferenceServerException, match="no model"):
        client.load_model("torch_round")


def test_log_and_trace_settings(kind: Tritonclient, client: Any) -> None:
    assert kind.plain(client.get_log_settings())["log_info"] is True
    assert kind.plain(client.get_trace_settings())["trace_level"] == ["OFF"]
    assert kind.plain(client.get_trace_settings("round"))["trace_level"] == ["OFF"]
    with pytest.raises(InferenceServerException, match="fixed"):
        client.update_log_settings({"log_info": False})
    with pytest.raises(InferenceServerException, match="no tracing"):
        client.update_trace_settings("round", {"trace_level": ["TIMESTAMPS"]})


def test_shared_memory_is_off(kind: Tritonclient, client: Any) -> None:
    tensor = kind.tensor("X", [1], "FP32")
    tensor.set_shared_memory("region", 4)
    calls: list[Any] = [
        lambda: client.register_system_shared_memory("region", "/key", 4),
        client.get_system_shared_memory_status,
        client.unregister_system_shared_memory,
        lambda: client.infer("round", [tensor]),
    ]
    for call in calls:
        with pytest.raises(InferenceServerException, match="SHARED_MEMORY_PREFIX") as caught:
            call()
        assert kind.status(caught.value) == 501


def test_cuda_shared_memory_is_not_offered(kind: Tritonclient, client: Any) -> None:
    calls: list[Any] = [
        lambda: client.register_cuda_shared_memory("region", b"handle==", 0, 4),
        client.get_cuda_shared_memory_status,
        client.unregister_cuda_shared_memory,
    ]
    for call in calls:
        with pytest.raises(InferenceServerException, match="CUDA") as caught:
            call()
        assert kind.status(caught.value) == 501
