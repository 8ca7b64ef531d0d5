"""The route that one writes first: FastAPI, the whole body, NumPy, bytes."""

from __future__ import annotations

import sys

import numpy as np
import uvicorn
from fastapi import FastAPI, Request, Response

app = FastAPI()


@app.post("/round")
async def round_tensor(request: Request) -> Response:
    tensor = np.frombuffer(await request.body(), np.float32)
    return Response(np.rint(tensor).tobytes(), media_type="application/octet-stream")


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), access_log=False, log_level="warning")
