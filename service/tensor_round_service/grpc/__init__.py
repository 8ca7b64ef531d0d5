"""gRPC on HTTP/2: the Open Inference Protocol's other half."""
